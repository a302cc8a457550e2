"""``csgm sweep`` while it runs: rows as they are done, processes, interrupts and resumption."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from csgm_cli import cli
from csgm_cli.cli import main
from csgm_cli.cli.inputs.sweeps import Sweep
from csgm_cli.cli.inputs.unfinished_sweeps import _Sample
from tests.cli.processes import end_of, wait_until
from tests.cli.questions import GRID, SOME_FAIL

ROOT = Path(cli.__file__).parents[2]


@pytest.mark.parametrize(
    ("kind", "jobs"),
    [("text", 1), ("json", 1), ("csv", 1), ("jsonl", 1), ("markdown", 1), ("json", 2), ("csv", 2)],
)
def test_output_and_jobs(csgm, place, kind, jobs):
    """A file has the bytes of stdout, however many processes worked on it."""
    expected = csgm(f"{GRID} --rounds 1 --format {kind}").stdout
    for _ in range(2):  # the second time in place of a file that is there
        outcome = csgm(f"{GRID} --rounds 1 --format {kind} --output rows --jobs {jobs}")
        assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "", "")
        assert Path("rows").read_bytes() == expected.encode()
    assert [path.name for path in place.iterdir() if path.name != ".git"] == ["rows"]


def started(*words, **options):
    """Start csgm as a process of its own, in the current folder."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CSGM_")}
    return subprocess.Popen(
        [sys.executable, "-m", "csgm_cli", *words],
        env=environment | {"PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


#: Hundreds of rows, of which the first are there long before the last; and fewer, which are computed again.
ROUNDS = 80
LONG = f"{GRID} --vary rounds=1:{ROUNDS}:{ROUNDS} --format".split()
SHORTER = f"{GRID} --vary rounds=1:20:20 --format".split()


def wait_for_rows(path, process):
    """Wait until some rows are in the file, while the process still runs."""
    wait_until(lambda: path.exists() and path.read_bytes().count(b"\n") > 3, process)
    assert process.poll() is None


def test_rows_are_written_as_they_are_done(place):
    """A reader of the pipe gets rows while later ones are still being computed; if it leaves, 141."""
    with started(*LONG, "csv", stdout=subprocess.PIPE) as process:
        assert process.stdout.readline().startswith("mechanism,gamma,norm_ratio,rounds,accountant,")
        assert process.stdout.readline().startswith("l2-csgm,0.01,10.0,1,rdp,")
        assert process.poll() is None
        process.stdout.close()
        assert end_of(process) == 141
        assert process.stderr.read() == ""


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c(place, jobs):
    """Ctrl-C reaches every process of the terminal: exit code 130, no noise, and the whole rows stay."""
    words = [*LONG, "jsonl", "--output", "rows", "--jobs", jobs]
    with started(*words, start_new_session=True) as process:
        wait_for_rows(place / "rows", process)
        os.killpg(process.pid, signal.SIGINT)
        assert end_of(process) == 130
        assert process.stderr.read() == "interrupted\n"
    lines = (place / "rows").read_text().splitlines()
    assert [json.loads(line)["rounds"] for line in lines] == [1 + i % ROUNDS for i in range(len(lines))]
    assert 3 < len(lines) < 6 * ROUNDS


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_between_rows_of_a_pipe(place, jobs):
    """The rows that are out already do not keep Ctrl-C from ending those that are not."""
    with started(*LONG, "csv", "--jobs", jobs, stdout=subprocess.PIPE, start_new_session=True) as process:
        for _ in range(3):
            process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)
        process.stdout.read()
        assert end_of(process) == 130
        assert process.stderr.read() == "interrupted\n"


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize(
    ("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_stopped_while_a_file_is_replaced(place, sent, status, jobs):
    """The file that was there stays, and nothing beside it; a terminal that closes ends every process."""
    folder = place / "folder"
    folder.mkdir()
    (folder / "rows").write_text("old")
    words = [*LONG, "csv", "--output", "folder/rows", "--jobs", jobs]
    with started(*words, start_new_session=True) as process:
        others = lambda: [path for path in folder.iterdir() if path.name != "rows"]
        wait_until(lambda: any(path.stat().st_size for path in others()), process)
        if sent == signal.SIGHUP:
            os.killpg(process.pid, sent)
        else:
            process.send_signal(sent)
        assert end_of(process) == status
        assert process.stderr.read() == ("interrupted\n" if sent == signal.SIGINT else "")
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [("rows", "old")]


@pytest.mark.parametrize(("kind", "jobs"), [("csv", "1"), ("jsonl", "2")])
def test_killed_and_resumed(csgm, place, kind, jobs):
    """A process that was killed outright leaves a file that --resume completes to the same bytes."""
    with started(*SHORTER, kind, "--output", "rows", "--jobs", jobs) as process:
        wait_for_rows(place / "rows", process)
        process.kill()
    torn, whole = (place / "rows").read_bytes(), csgm(*SHORTER, kind).stdout
    assert len(torn) < len(whole.encode())
    (place / "rows").write_bytes(torn[:-7])  # and this is what a kill in the middle of a write leaves
    outcome = csgm(*SHORTER, kind, "--output", "rows", "--resume")
    assert (outcome.status, outcome.stdout) == (0, "")
    assert re.fullmatch(r"--resume recomputed \d of \d+ rows in 'rows'; all agree\n", outcome.stderr)
    assert (place / "rows").read_text() == whole


def test_a_killed_process_of_jobs_is_no_bug(csgm, place):
    """The system kills a process for want of memory: exit code 4, and the rows that are done stay."""
    with started(*SHORTER, "csv", "--output", "rows", "--jobs", "2") as process:
        wait_for_rows(place / "rows", process)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGKILL)
        assert end_of(process) == 4
        error, hint = process.stderr.read().splitlines()
    assert error == "error[worker-lost]: a worker process was killed by signal 9"
    assert "--jobs" in hint
    assert (place / "rows").read_text().count("\n") > 3
    assert csgm(*SHORTER, "csv", "--output", "rows", "--resume").status == 0
    assert (place / "rows").read_text() == csgm(*SHORTER, "csv").stdout


@pytest.mark.parametrize("content", ["", "old"])
def test_one_sweep_per_file(csgm, place, content):
    """A second sweep into a file is refused while the first runs; a kill leaves nothing that blocks it."""
    (place / "rows").write_text(content)
    with started(*SHORTER, "csv", "--output", "rows", "--jobs", "2") as process:
        growing = lambda: any(path.is_file() and b"\n" in path.read_bytes() for path in place.iterdir())
        wait_until(growing, process)
        for more in ([], ["--resume"]):
            second = csgm(*SHORTER, "csv", "--output", "rows", *more)
            assert (second.status, second.stdout) == (4, "")
            assert second.stderr.startswith("error[in-use]: cannot write 'rows': another process is writing")
        process.kill()
    assert csgm(*SHORTER, "csv", "--output", "rows").status == 0
    assert (place / "rows").read_text() == csgm(*SHORTER, "csv").stdout


def test_processes_end_with_a_killed_parent(place):
    """No process of --jobs outlives the one that was killed and could not tell it to end."""
    with started(*LONG, "csv", "--output", "rows", "--jobs", "2", start_new_session=True) as process:
        wait_for_rows(place / "rows", process)
        process.kill()
        assert process.stderr.read() == ""  # no remarks of the processes either
    for _ in range(500):
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.02)
    raise AssertionError("a process of the group is still there after 10 s")


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), st.sampled_from(["csv", "jsonl"]), st.sampled_from([GRID, SOME_FAIL]))
def test_resumed_from_any_byte(place, capsys, data, kind, line):
    """Whatever part of the file is there, --resume makes it the whole, and says the same at the end."""
    words = [*line.split(), "--rounds", "1", "--format", kind]
    status = main(words)
    whole = capsys.readouterr()
    size = data.draw(st.integers(0, len(whole.out)))
    (place / "rows").write_text(whole.out[:size])
    assert main([*words, "--output", "rows", "--resume"]) == status
    assert (place / "rows").read_text() == whole.out
    said = re.sub(r"--resume recomputed .*; all agree\n", "", capsys.readouterr().err)
    assert said.partition(";")[0].strip() == whole.err.partition(";")[0].strip()


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize(
    "other",
    [
        GRID.replace("gamma=0.01:0.5:3log", "gamma=0.01:0.5:4log"),
        GRID.replace("norm-ratio=10,1000", "norm-ratio=1000,10"),
        GRID.replace("--epsilon 5", "--epsilon 4.999999999"),
        GRID.replace("--delta 1e-8", "--delta 1e-7"),
        GRID.replace("--accountant rdp", "--accountant auto"),
        f"{GRID} --rounds 2",
        f"{GRID} --l2-norm 2",
        f"{GRID} --adjacency replace-one",
        f"{GRID} --dim 1e9 --cohort-size 10",
        f"{GRID} --vary rounds=1,2",
        "calibrate --epsilon 5 --delta 1e-8 --gamma 0.01 --norm-ratio 10",
        "sweep --preset figure1",
    ],
)
def test_file_of_another_sweep(csgm, kind, other):
    """Rows of any other question are refused, and the file stays as it was."""
    if other.startswith("calibrate"):
        kind = "csv"
    csgm(*other.split(), "--format", kind, "--output", "rows")
    before = Path("rows").read_bytes()
    outcome = csgm(*GRID.split(), "--format", kind, "--output", "rows", "--resume")
    assert outcome.status == 2
    assert outcome.stderr.startswith("error[other-sweep]: 'rows' holds the rows of another sweep")
    assert Path("rows").read_bytes() == before


@pytest.mark.parametrize("content", [b"hello", b"hello\n", b"\n", b"\xff\xfe", b"mechanism,gamma\n", b"{\n"])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_file_of_something_else(csgm, content, kind):
    """A file that was never a sweep is refused and kept."""
    Path("rows").write_bytes(content)
    outcome = csgm(*GRID.split(), "--format", kind, "--output", "rows", "--resume")
    assert outcome.status == 2
    assert Path("rows").read_bytes() == content


def test_more_rows_than_points(csgm):
    """A file that goes on after the last point is of another sweep."""
    csgm(f"{GRID} --format csv --output rows")
    whole = Path("rows").read_text()
    Path("rows").write_text(whole + whole.splitlines()[-1][:5])
    assert csgm(f"{GRID} --format csv --output rows --resume").status == 2


def test_old_file_survives_a_failed_run(csgm, place, monkeypatch):
    """Without --resume a file is replaced when the last row is done, and not before."""
    (place / "rows").write_text("old")

    def fail(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("csgm_cli.jobs.sweep.answer", fail)
    assert csgm(f"{GRID} --format csv --output rows").status == 130
    assert (place / "rows").read_text() == "old"
    assert [path.name for path in place.iterdir() if path.name != ".git"] == ["rows"]


def test_a_bug_in_a_worker_is_a_bug(csgm, monkeypatch):
    """What is neither a wrong question nor a missing answer is not made a row."""
    monkeypatch.setattr("csgm_cli.jobs.sweep.answer", lambda _: 1 / 0)
    outcome = csgm(f"{GRID} --format csv")
    assert (outcome.status, outcome.stdout) == (70, "")


LARGE = (
    "sweep --epsilon 5 --delta 1e-8 --mechanism gaussian --rounds 1 --vary l2-norm=1:40:40 --format {}"
    " --output rows"
)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("row", range(5))
def test_an_edited_row_of_a_few_is_refused_with_its_line(csgm, kind, row):
    """Up to five rows are all recomputed."""
    line = f"{GRID} --rounds 1 --format {kind} --output rows"
    csgm(line)
    lines = Path("rows").read_text().splitlines(keepends=True)[: 5 + (kind == "csv")]
    at = row + (kind == "csv")
    lines[at] = lines[at].replace("0.", "0.9", 1) if kind == "jsonl" else _with_more_noise(lines[at])
    Path("rows").write_text("".join(lines))
    outcome = csgm(f"{line} --resume")
    assert (outcome.status, Path("rows").read_text()) == (2, "".join(lines))
    assert f"line {at + 1} " in outcome.stderr


def _with_more_noise(line):
    """The row of a csv file with the last digit of its eighth field changed."""
    cells = line.split(",")
    cells[7] = cells[7][:-1] + ("1" if cells[7][-1] != "1" else "2")
    return ",".join(cells)


def test_resume_recomputes_a_random_sample(csgm, monkeypatch):
    """Five of many rows beside the first and the last; --seed chooses the same ones again."""
    csgm(LARGE.format("csv"))
    whole = Path("rows").read_bytes()
    recomputed = []
    solve = Sweep.solve
    monkeypatch.setattr(Sweep, "solve", lambda self, row: recomputed.append(row) or solve(self, row))

    def rows(*flags):
        recomputed.clear()
        outcome = csgm(*LARGE.format("csv").split(), "--resume", *flags)
        count = len(recomputed)
        assert outcome.stderr == f"--resume recomputed {count} of 40 rows in 'rows'; all agree\n"
        assert (outcome.status, Path("rows").read_bytes()) == (0, whole)
        assert {0, 39} <= set(recomputed)
        assert 5 <= count == len(set(recomputed)) <= 7
        return tuple(recomputed)

    assert rows("--seed", "3") == rows("--seed", "3")
    assert len({rows("--seed", str(seed)) for seed in range(8)}) > 1
    assert len({rows() for _ in range(8)}) > 1


def test_each_row_is_sampled_with_equal_probability():
    """Of 20 rows each is among the five for a quarter of the seeds: 500 of 2000, within 5 std of 19.4."""
    counts = [0] * 20
    for seed in range(2000):
        sample = _Sample(seed)
        for row in range(20):
            sample.add(row, "")
        for row, _ in sample.lines:
            counts[row] += 1
    assert sum(counts) == 5 * 2000
    assert all(abs(count - 500) < 97 for count in counts)
