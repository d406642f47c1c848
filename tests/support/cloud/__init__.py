"""A cloud for the tests: moto's server as EC2, and an emulated machine for each of its instances.

trouble     what goes wrong, as data                    query       EC2's query protocol: calls, answers, errors
gaps        what EC2 does and moto does not             front       before moto: counts, refuses, delays
machine     one instance as an emulated machine         hypervisor  makes the machines follow the instances
serve       the cloud's own process                     cloud       its handle for tests
unmanned    the cloud without machines as a testbed, with the Storm of the fakes
"""
