"""Options of the source, which are validated before anything is read."""

import pytest

from spark_bridge.handover import HandoverError
from spark_bridge.source.options import SourceOptions
from spark_bridge.source.planning import MAX_COUNTED, last_txid


def parsed(**options: str) -> SourceOptions:
    return SourceOptions.parse({"path": "/data/handover", **options})


def test_option_names_ignore_case() -> None:
    options = parsed(CONSUMER="c", maxtransactionsperbatch="5", startingTxid="7", MaxPartitionBytes="2m")
    assert (options.consumer, options.max_transactions, options.starting, options.max_partition_bytes) == ("c", 5, 7, 2 << 20)


def test_storage_options_reach_the_storage() -> None:
    options = SourceOptions.parse({"path": "s3://b/h", "storage.key": "me", "storageOptions": '{"anon": false, "key": "other"}'})
    assert options.storage == {"anon": False, "key": "me"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"consummer": "c"}, "no option 'consummer'"),
        ({"maxTransactionsPerBatch": "0"}, "maxTransactionsPerBatch is '0'"),
        ({"maxRowsPerBatch": "many"}, "maxRowsPerBatch is 'many'"),
        ({"startingTxid": "newest"}, "startingTxid is 'newest'"),
        ({"maxPartitionBytes": "16 MB/s"}, "maxPartitionBytes is"),
        ({"table": "words"}, "table is 'words'"),
        ({"storageOptions": "[1]"}, "Give a JSON object"),
        ({"storageOptions": "{"}, "Give a JSON object"),
        ({"fromTxid": "-1"}, "fromTxid is '-1'"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], said: str) -> None:
    with pytest.raises(HandoverError) as raised:
        parsed(**options)
    assert said in str(raised.value)


def test_a_folder_is_needed() -> None:
    with pytest.raises(HandoverError, match="no folder is given"):
        SourceOptions.parse({"consumer": "c"})


@pytest.mark.guarantee("SP-3")
@pytest.mark.parametrize(
    ("begin", "newest", "transactions", "rows", "end"),
    [
        (4, 9, None, None, 9),
        (4, 9, 3, None, 7),
        (4, 5, 3, None, 5),
        (4, 4, 3, None, 4),
        (4, 9, None, 250, 6),
        (4, 9, 1, 250, 5),
        (4, 9, None, 50, 5),  # one at least
        (0, 5000, None, 10**9, MAX_COUNTED),
        (9, 4, 3, 10, 9),  # never backwards
    ],
)
def test_the_bounds_of_a_micro_batch_are_parsed(begin: int, newest: int, transactions: int | None, rows: int | None, end: int) -> None:
    assert last_txid(begin, newest, transactions, rows, lambda txid: 100) == end
