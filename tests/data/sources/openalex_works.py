"""OpenAlex works in the shapes of several years, made for the tests."""

import json

URL = "https://openalex.org/"
Work = dict[str, object]


def work(number: int, **changes: object) -> Work:
    """A work in the schema of 2026; a key changed to `...` is absent."""
    year = 2000 + number % 5
    record: Work = {
        "id": f"{URL}W{number}",
        "doi": f"https://doi.org/10.1/{number}",
        "title": f"Title {number}",
        "display_name": f"Title {number}",
        "publication_year": year,
        "publication_date": f"{year}-0{number % 9 + 1}-11",
        "language": "en",
        "type": "article",
        "primary_location": {
            "is_oa": True,
            "source": {"id": f"{URL}S{number % 3}", "display_name": f"Journal {number % 3}"},
        },
        "authorships": [{"author": {"id": f"{URL}A1", "display_name": "N. N."}}],
        "cited_by_count": number * 2,
        "is_retracted": False,
        "is_paratext": False,
        "is_xpac": False,
        "primary_topic": {
            "id": f"{URL}T1",
            "display_name": "Topic one",
            "score": 0.9,
            "field": {"id": f"{URL}fields/18", "display_name": "Decision Sciences"},
        },
        "topics": [{"id": f"{URL}T1", "display_name": "Topic one", "score": 0.9}],
        "keywords": [{"id": f"{URL}keywords/a", "display_name": "Keyword", "score": 0.5}],
        "concepts": [
            {"id": f"{URL}C1", "display_name": "Physics", "level": 0, "score": 0.3},
            {"id": f"{URL}C2", "display_name": "Chemistry", "level": 0, "score": 0.4},
            {"id": f"{URL}C3", "display_name": "Topic one", "level": 1, "score": 0.9},
        ],
        "referenced_works": [f"{URL}W{number - 1}", f"{URL}W{number - 2}"],
        "related_works": [],
        "abstract_inverted_index": {"We": [0], "study": [1, 3], "number": [2], f"n{number}": [4]},
        "updated_date": "2026-03-01T00:00:00.000001",
    }
    record.update(changes)
    return {key: value for key, value in record.items() if value is not ...}


def line(record: object) -> bytes:
    return json.dumps(record).encode()


def rows_of_2023(record: Work) -> Work:
    """The same work as the schema of 2023 has it."""
    return {key: value for key, value in record.items() if key not in ("topics", "primary_topic")} | {
        "keywords": [{"keyword": "Keyword", "score": 0.5}],
        "ngrams_url": "https://api.openalex.org/works/W1/ngrams",
    }
