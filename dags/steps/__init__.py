"""What a DAG's tasks do, as plain functions that know nothing of what schedules them."""
