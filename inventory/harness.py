"""Which harness this is: an id of its own in the state folder, carried by all that it makes among what others make."""

import os
import uuid

from inventory import leases
from inventory.errors import ConfigurationError


def harness_id() -> str:
    """The id of this state folder, made when it is first asked for; who loses the folder is another harness."""
    path = leases.state_dir() / "harness_id"
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            mine = path.with_name(f".harness_id.{os.getpid()}.{uuid.uuid4().hex[:8]}")
            mine.write_text(uuid.uuid4().hex)
            try:
                os.link(mine, path)  # the first one wins; everybody reads what it wrote
            except FileExistsError:
                pass
            finally:
                mine.unlink()
        return path.read_text().strip()
    except OSError as error:
        raise ConfigurationError(
            f"state folder {path.parent}: {error.strerror}; run as root or set BAROGRAPH_STATE to a writable folder"
        ) from error
