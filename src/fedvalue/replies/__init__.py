"""What the nodes of a federation have signed: statements on what they trained and measured, and the book of them."""

from fedvalue.replies._book import Book, Entry, Sitting, book_beside, read_book
from fedvalue.replies._statement import Reply, digest_of_bytes, digest_of_metrics, origin_of, test_at_nodes

__all__ = [
    "Book",
    "Entry",
    "Reply",
    "Sitting",
    "book_beside",
    "digest_of_bytes",
    "digest_of_metrics",
    "origin_of",
    "read_book",
    "test_at_nodes",
]
