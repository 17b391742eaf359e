"""Uses a Ringfence service through the client that openapi-python-client made of its OpenAPI document. Argument: the URL.

Prints what it saw as one JSON object; anything that is not as it should be is an exception.
"""
import io
import json
import sys
import time

from expect import PICTURE, expect
from ringfence_client import Client
from ringfence_client.api.audit import list_audit
from ringfence_client.api.events import follow_run, follow_runs
from ringfence_client.api.files import delete_file, edit_file, grep_files, list_files, read_file, write_file
from ringfence_client.api.runs import cancel_run, list_artifacts, list_runs, read_artifact, read_run, start_run
from ringfence_client.api.sessions import (
    close_session,
    create_session,
    fork_session,
    list_checkpoints,
    list_sessions,
    read_session,
    rollback_session,
)
from ringfence_client.models import EditPart, EditRequest, Problem, RollbackRequest, RunRequest
from ringfence_client.types import File


def drive(url):
    client = Client(base_url=url)

    def run(**asked):
        return start_run.sync(client=client, body=RunRequest(**asked))

    expect("value", run(code="6 * 7").value, "42")
    session = create_session.sync(client=client).id
    run(code="x = 20", session=session)
    expect("state", run(code="x + 1", session=session).value, "21")
    checkpoints = list_checkpoints.sync(session, client=client).checkpoints
    run(code="x = 0", session=session)
    rollback_session.sync(session, client=client, body=RollbackRequest(cell=checkpoints[-1]))
    expect("rolled back", run(code="x", session=session).value, "20")

    big = bytes(range(256)) * 20_000
    written = write_file.sync_detailed(session, "a/b.bin", client=client, body=File(payload=io.BytesIO(big)))
    expect("written", (written.status_code, written.parsed.created), (201, True))
    expect("read", read_file.sync(session, "a/b.bin", client=client).payload.read() == big, True)
    part = read_file.sync_detailed(session, "a/b.bin", client=client, range_="bytes=255-257")
    expect("range", (part.status_code, part.parsed.payload.read()), (206, b"\xff\x00\x01"))
    tag = part.headers["etag"]
    expect("not modified", read_file.sync_detailed(session, "a/b.bin", client=client, if_none_match=tag).status_code, 304)
    body = File(payload=io.BytesIO(b"one\ntwo\n"))
    expect("replaced", write_file.sync_detailed(session, "a/b.bin", client=client, body=body, if_match=tag).status_code, 200)
    body = File(payload=io.BytesIO(b"late"))
    late = write_file.sync(session, "a/b.bin", client=client, body=body, if_match=tag)
    expect("late write", (type(late), late.code), (Problem, "precondition_failed"))
    edits = EditRequest(edits=[EditPart(old="two", new="twice")])
    expect("edited", edit_file.sync(session, "a/b.bin", client=client, body=edits).n_replaced, 1)
    expect("no such text", edit_file.sync(session, "a/b.bin", client=client, body=edits).code, "edit_mismatch")
    found = grep_files.sync(session, client=client, pattern="twi.e").matches
    expect("grep", [(hit.path, hit.line) for hit in found], [("a/b.bin", 2)])
    paths, cursor = [], None
    while True:
        page = list_files.sync(session, client=client, depth=2, limit=1, **({"cursor": cursor} if cursor else {}))
        paths += [entry.path for entry in page.entries]
        cursor = page.next_
        if cursor is None:
            break
    expect("pages", paths, ["a", "a/b.bin"])

    refused = start_run.sync_detailed(client=client, body=RunRequest(code="object.__subclasses__()"))
    expect("refused", (refused.status_code, refused.parsed.status.value), (422, "blocked"))
    expect("5 MB", len(run(code="print('x' * 5_000_000)").stdout), 5_000_001)
    picture = run(code=PICTURE)
    expect("artifacts", [a.path for a in list_artifacts.sync(picture.run_id, client=client).artifacts], ["dot.png"])
    expect("picture", read_artifact.sync(picture.run_id, "dot.png", client=client).payload.read(4), b"\x89PNG")

    commands = ["for i in 1 2 3 4 5 6 7; do echo $i; sleep 1; done", "for i in 1 2 3 4 5 6; do echo $i; sleep 5; done"]
    runs = [run(command=command, background=True) for command in commands]
    for long, lines in zip(runs, ("1\n2\n3\n4\n5\n6\n7\n", "1\n2\n3\n4\n5\n6\n")):
        expect("in the background", long.status.value, "running")
        names, text, cursor, deadline = [], "", None, time.monotonic() + 90
        while time.monotonic() < deadline:
            page = follow_run.sync(long.run_id, client=client, **({"cursor": cursor} if cursor else {}))
            names += [event.event.value for event in page.events]
            text += "".join(event.data["data"] for event in page.events if event.event.value == "stdout")
            cursor = page.next_
            if page.ended:
                break
            time.sleep(0.3)
        expect("followed", (names[0], names[-1], text), ("started", "finished", lines))
        expect("outcome", read_run.sync(long.run_id, client=client).exit_code, 0)

    endless = run(command="sleep 600", background=True, session=session)
    expect("cancelled", cancel_run.sync(endless.run_id, client=client).error.code, "cancelled")
    expect("listed", endless.run_id in [r.run_id for r in list_runs.sync(client=client).runs], True)
    expect("feed", follow_runs.sync(client=client).events[0].event.value, "started")
    fork = fork_session.sync(session, client=client).id
    expect("sessions", {session, fork} <= {s.id for s in list_sessions.sync(client=client).sessions}, True)
    expect("deleted", delete_file.sync(session, "a", client=client, recursive=True).n_entries, 2)
    expect("audit", len(list_audit.sync(client=client, limit=3).records), 3)
    for one in (session, fork):
        expect("closed", close_session.sync_detailed(one, client=client).status_code, 204)
    expect("gone", read_session.sync(session, client=client).code, "session_unknown")
    return {"client": "openapi-python-client", "runs": len(list_runs.sync(client=client).runs)}


print(json.dumps(drive(sys.argv[1])))
