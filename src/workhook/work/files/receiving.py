"""Takes in an upload: its bytes go to the store first, then its row is written, and bytes without a row are removed."""

from __future__ import annotations

from workhook.core import json
from workhook.core.errors import Invalid
from workhook.core.records import Wire
from workhook.http import parameters
from workhook.http.calls import Call
from workhook.identity.context import Write
from workhook.work.files import actions
from workhook.work.files.links import links_of
from workhook.work.files.schemas import Content, File, FileCreate
from workhook.work.files.upload import Admit, Form, admit_all, least_file_bytes, parameters_of, read_form
from workhook.work.kernel.access import Access


class Upload:
    """A file that is in the store, and may become one of the project: use it as a context.

    After a commit that may or may not have been, the blob stays for `trash.purge`, which looks whether a row has it;
    else one that is no file's is deleted. `is_stored` is set to False by who finds out that no row has it.
    """

    def __init__(self, call: Call, access: Access, create: FileCreate, content: Content, fingerprint: bytes) -> None:
        self.fingerprint = fingerprint
        self.content = content
        self.is_stored = False
        self._call = call
        self._access = access
        self._create = create

    async def create(self, write: Write) -> Wire[File]:
        """Write the row, as one try of a change. Raises what `actions.create_file` does, and `TooLarge`."""
        self.is_stored = False
        await actions.reserve_room(write.tx, self._call, self._access, self.content.size)
        project_id = self._access.repository.project_id
        made = await actions.create_file(write, project_id, self._create, self.content, links=links_of(self._call))
        self.is_stored = True
        return made

    async def __aenter__(self) -> Upload:
        return self

    async def __aexit__(self, *error: object) -> None:
        if not self.is_stored:
            await self._call.services.blobs.forget(self.content.blob)


async def receive(call: Call, access: Access, *, admit: Admit = admit_all, may_be_stored: bool = False) -> Upload:
    """Read the form of the request. `admit`: as in `upload.read_form`; it may take out fields that are no parameters.
    `may_be_stored`: the same may have come before, so that it needs no room. Raises what `upload.read_form` does, and
    `Forbidden`, `Conflict`, `Invalid`.
    """
    access.require_writable()  # before the body is read: nobody else makes us store anything
    if not may_be_stored:
        await actions.require_room(call, access, least_file_bytes(call))
    async with call.services.blobs.incoming() as incoming:
        form = await read_form(call, incoming, limit=limit_of(call), admit=admit)
        await call.body_came()
        create = _parameters(call, form)
        await incoming.keep()
    content = Content(form.name, form.content_type, incoming.size, incoming.sha256, incoming.name)
    return Upload(call, access, create, content, _fingerprint(form, content))


def limit_of(call: Call) -> int:
    """The bytes that a file may have."""
    return call.services.settings.upload_max_mb * 2**20


def _parameters(call: Call, form: Form) -> FileCreate:
    """Raises `Invalid` with what is wrong with the file, too."""
    try:
        create = parameters.gather(FileCreate, parameters_of(call.query, form), {})
    except Invalid as error:
        raise Invalid(faults=[*form.faults, *error.faults]) from error
    if form.faults:
        raise Invalid(faults=form.faults)
    return create


def _fingerprint(form: Form, content: Content) -> bytes:
    """The request, as far as it is the same when it is sent again: boundaries differ."""
    return json.encode([sorted(form.fields.items()), content.name, content.content_type, content.sha256])
