"""Results in a bucket: a local folder, the spool, mirrors what is small and holds what is not sent yet.

`location` names the place · `bucket` is S3 and nothing else · `layout` says what lies where, pure · `sending` and
`bringing` are the two directions · `hold` lets one harness write a series · `shared` is what Spark reads and writes
there. docs/decisions/0007 says why.
"""
