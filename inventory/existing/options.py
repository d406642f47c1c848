"""What the experiment says of machines that one already has."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from inventory.options import Options

Word = Annotated[str, Field(min_length=1)]


class ExistingOptions(Options):
    """`testbed.options.existing`."""

    inventory: Word = Field(
        description="give the path of an Ansible inventory file (INI or YAML) that lists the machines"
    )
    group: Word = "all"  # the machines of this group, in the file's order
    master: Word | None = None  # which of them is the master; None: the first of group `master`, else the first
    ssh_key: Word | None = None  # for machines without ansible_ssh_private_key_file; None: the user's first own key
    known_hosts: Word = "~/.ssh/known_hosts"

    def inventory_file(self) -> Path:
        return Path(self.inventory).expanduser().absolute()
