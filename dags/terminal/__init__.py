"""The command line's side: start the same DAG in a child process and show how it goes."""
