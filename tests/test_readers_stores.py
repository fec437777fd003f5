"""Logs in an object store, read from a server on this machine."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import vitalrank as vr
from commands import call, told
from test_prepared import assert_same
from test_preparing import columns

server = pytest.importorskip("moto.server")


@pytest.fixture(scope="module")
def store():
    """A server of S3's protocol, which pyarrow is told of as people tell it: by the environment."""
    from pyarrow import fs

    running = server.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "someone")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "something")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        made, _ = fs.FileSystem.from_uri("s3://bucket?allow_bucket_creation=true")
        made.create_dir("bucket")
        yield made
    running.stop()


def put(store, path, data):
    with store.open_output_stream(path, compression=None) as file:
        file.write(data)


@pytest.fixture(scope="module")
def log(store):
    """A log of three Parquet files in a folder of the store, and as a table."""
    table = columns(600)
    for number in range(3):
        pq.write_table(table.slice(200 * number, 200), f"bucket/log/part-{number}.parquet", filesystem=store)
    put(store, "bucket/log/_SUCCESS", b"")
    return table


@pytest.mark.parametrize(
    "source",
    [
        "s3://bucket/log/",
        "s3://bucket/log",
        "s3://bucket/log/part-*.parquet",
        "s3://bucket/**/part-[0-9].parquet",
        [f"s3://bucket/log/part-{number}.parquet" for number in range(3)],
    ],
)
def test_files_folders_patterns_and_lists_are_read(log, source, tmp_path):
    expected = vr.read(log)
    assert_same(vr.read(source), expected)
    assert_same(vr.prepare_log(source, tmp_path / "out").log(), expected)


def test_text_is_unpacked_and_goes_together_with_files_on_disk(store, tmp_path):
    put(store, "bucket/text/a.tsv.gz", gzip.compress(b"user\titem\nann\t7\nbob\t8\n"))
    (tmp_path / "b.tsv").write_text("user\titem\nann\t9\n")
    log = vr.read(["s3://bucket/text/a.tsv.gz", tmp_path / "b.tsv"])
    assert (log.n_users, log.n_items, len(log)) == (2, 3, 3)


def test_the_command_line_takes_addresses(capsys, log, tmp_path):
    found = told(capsys, "data", "prepare", "s3://bucket/log/", "--out", tmp_path / "prepared")
    assert found["users"] == vr.read(log).n_users
    assert call("fit", "s3://bucket/log/", "--out", tmp_path / "run", "--epochs", 1, "--set", "dim=4") == 0
    assert vr.load(tmp_path / "run").train.n_users == found["users"]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("s3://bucket/none.csv", r"s3://bucket/none\.csv: no such file or folder; check the address"),
        ("s3://nowhere/log/", "no such file or folder"),
        ("s3://bucket/log/*.csv", "no file matches"),
        ("s3://bucket/nest/", r"holds a folder \(inner\); name the files, as in \*/\*\.parquet"),
        ("s3://bucket/empty.csv", r"empty\.csv is empty"),
        ("s3://bucket/cut.parquet", r"cut\.parquet: damaged Parquet file"),
        ("s3://bucket/cut.csv.gz", r"cut\.csv\.gz: cannot be read \(Truncated"),
        ("s3://bucket/log/?nonsense=1", "^s3://bucket/log/: cannot be read .*nonsense.*the credentials, the region"),
        ("gs://bucket/log/?nonsense=1", "^gs://bucket/log/: cannot be read .*nonsense"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(store, address, message):
    put(store, "bucket/nest/inner/a.csv", b"user,item\n1,2\n")
    put(store, "bucket/empty.csv", b"")
    put(store, "bucket/cut.parquet", b"PAR1 and no more")
    put(store, "bucket/cut.csv.gz", gzip.compress(b"user,item\n1,2\n" * 9)[:-12])
    with pytest.raises(vr.DataError, match=message) as caught:
        vr.read(address)
    assert "\n" not in str(caught.value)


def test_an_int_column_is_no_table_of_strings(store):
    pq.write_table(pa.table({"user": [1], "item": [[2]]}), "bucket/odd.parquet", filesystem=store)
    with pytest.raises(vr.DataError, match=r"s3://bucket/odd\.parquet"):
        vr.read("s3://bucket/odd.parquet")
