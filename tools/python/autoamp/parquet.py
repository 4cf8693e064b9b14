"""The helper of `autoamp export --type parquet`: reads batches of columns from stdin and writes a data set.

    OUT/runs.parquet                                one row per process
    OUT/signatures/run=R/rank=K/part-0.parquet      one row per signature and decision
    OUT/calls/run=R/rank=K/part-N.parquet           one row per call, with entry, op, shape, decision, precision of its signature
    OUT/kernels/run=R/rank=K/part-N.parquet         one row per kernel or device copy

Memory use is that of one batch and does not depend on the number of events.
"""
import errno
import json
import os
import sys

UNKNOWN = -2**63
OF_SIGNATURE = {"entry": "entry", "op": "op", "shape": "shape", "decision": "decision", "precision": "dtype_compute"}
FLAGS = ("captured", "is_cast", "is_copy")


def main(folder, stream):
    try:
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq
    except ImportError:
        return 3
    signatures, names, parts = {}, [], {}
    os.mkdir(folder)

    def place(head):
        path = os.path.join(folder, head["table"], f"run={head['run']}", f"rank={head['rank'] or 0}")
        os.makedirs(path, exist_ok=True)
        number = parts[path] = parts.get(path, -1) + 1
        return os.path.join(path, f"part-{number}.parquet")

    def objects(head):  # compound values (the command, the configuration) become JSON text
        def plain(name, value):
            if isinstance(value, (dict, list)):
                return json.dumps(value)
            return str(value) if name == "rank" and value is not None else value

        # Names in folder names are not columns too: readers would get them twice, with two types.
        said = () if head["table"] == "runs" else ("run", "rank")
        return pa.Table.from_pylist([{name: plain(name, value) for name, value in each.items() if name not in said}
                                     for each in head["objects"]])

    def batch(head):
        columns = {}
        for name in head["columns"]:
            data = stream.read(8 * head["rows"])
            if len(data) < 8 * head["rows"]:
                raise EOFError
            column = pa.Array.from_buffers(pa.int64(), head["rows"], [None, pa.py_buffer(data)])
            if name.endswith("_ns"):
                column = pc.if_else(pc.equal(column, UNKNOWN), None, column)
            columns[name] = column.cast(pa.bool_()) if name in FLAGS else column
        known = signatures[head["run"]]
        at = pc.index_in(columns["row"], known["row"])
        for name, field in OF_SIGNATURE.items():
            columns[name] = pc.take(known[field], at)
        if "name" in columns:
            columns["name"] = pc.take(pa.array(names, pa.string()).dictionary_encode(), columns["name"])
        return pa.table(columns)

    for line in stream:
        head = json.loads(line)
        table = head["table"]
        if table == "names":
            names += head["names"]
        elif table == "runs":
            runs = objects(head)
        elif table == "signatures":
            rows = head["objects"]
            signatures[head["run"]] = {"row": pa.array([row["row"] for row in rows], pa.int64())} | {
                field: pa.array([row[field] for row in rows], pa.string()).dictionary_encode()
                for field in OF_SIGNATURE.values()}
            if rows:
                pq.write_table(objects(head), place(head))
        else:
            pq.write_table(batch(head), place(head))
    pq.write_table(runs, os.path.join(folder, "runs.parquet"))  # last: this file marks a complete data set
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1], sys.stdin.buffer))
    except EOFError:  # the writer has ended and reports the reason
        sys.exit(1)
    except OSError as error:  # the writer reports the error
        sys.exit(100 + (error.errno or errno.EIO))
