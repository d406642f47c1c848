"""The policy service: answers Nimbus with the policies of this package, in front of Storm and in the simulator.

server.py           HTTP on the master; `__main__.py` starts it
state.py            a run: what each call does to it
messages.py         bodies of calls and lines of the decision log
policy_call.py      asking a policy within a time limit; refusal.py: whether its decision is allowed
scale_requests.py   scale events of the harness, and what policies ask of machines
decision_tracker.py which decisions arrived, were applied or failed
topology_state.py   one topology: samples.py, line_sums.py and emission_records.py of its workers' lines
"""
