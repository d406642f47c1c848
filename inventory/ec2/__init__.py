"""The `ec2` testbed: machines rented from AWS, with an end of their own."""
