"""Words and addresses of a page, without its markup."""

import re
from html.parser import HTMLParser


class Words(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.words: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del tag
        self.addresses += [v or "" for n, v in attrs if n in ("src", "href", "xlink:href", "action", "data")]
        self.ids += [v or "" for n, v in attrs if n == "id"]

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))
