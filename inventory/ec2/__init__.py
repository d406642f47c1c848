"""The `ec2` testbed: machines rented from AWS, each with an expiry."""
