// Gives tables and figures a button to take them along, and the browsers of rows a search, filters, pages and keys.
// What it adds is there only where it runs. Texts of models go to textContent and to files, never to HTML.
"use strict";
(function () {
  const make = (tag, values, ...children) => {
    const made = Object.assign(document.createElement(tag), values);
    made.append(...children);
    return made;
  };
  const all = (selector) => [...document.querySelectorAll(selector)];
  const below = (cell) => cell.querySelector(":scope > small")?.textContent.trim() ?? "";
  // The first line of a cell; a text of a model is all of it, as it stands.
  const main = (cell) => cell.querySelector(":scope > pre")?.textContent ?? [...cell.childNodes]
    .filter((one) => one.nodeName !== "SMALL").map((one) => one.textContent).join("").trim().replace(/\s*\n\s*/g, "; ");

  const title = (head) => [main(head), below(head)].filter((part) => part).join(", ");

  const GROUPED = /^[+-]?\d{1,3}(,\d{3})+(\.\d+)?$/;
  const NUMBER = /^[+-]?[\d.,]+(e[+-]?\d+)?( ?%)?$/i;
  function field(text) {
    // What a spreadsheet would take for a formula and is no number gets an apostrophe.
    const safe = /^[=+\-@\t\r]/.test(text) && !NUMBER.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  }

  // A figure in full with the ends of its interval, or what is shown and what stands below it.
  function parts(cell) {
    const exact = cell.dataset.exact?.split(" ") ?? [];
    if (exact.length > 1) return exact;
    const shown = main(cell);
    const plain = cell.classList.contains("number") && GROUPED.test(shown) ? shown.replaceAll(",", "") : shown;
    return [exact[0] ?? plain, below(cell)];
  }

  function csv(table) {
    const rows = (table.found ?? [...table.tBodies[0].rows]).map((row) => [...row.cells].map(parts));
    const heads = table.tHead ? [...table.tHead.rows[0].cells] : [make("th", { textContent: "name" }), make("th", { textContent: "value" })];
    const widths = heads.map((_, at) => Math.max(1, ...rows.map((row) => (row[at] ?? []).findLastIndex((part) => part) + 1)));
    const names = heads.flatMap((head, at) => {
      const name = title(head);
      return [name, ...{ 1: [], 2: [`${name}: note`], 3: [`${name}: low`, `${name}: high`] }[widths[at]]];
    });
    const filled = rows.map((row) => widths.flatMap((width, at) => Array.from({ length: width }, (_, part) => row[at]?.[part] ?? "")));
    return [names, ...filled].map((row) => row.map(field).join(",") + "\r\n").join("");
  }

  // A figure that stands alone: in the colours of the light scheme, which are variables of the page, and with a size.
  function svg(figure) {
    const light = document.querySelector("style").sheet.cssRules[0].style;
    const [, , width, height] = figure.getAttribute("viewBox").split(" ");
    const text = new XMLSerializer().serializeToString(figure).replace("<svg ", `<svg width="${width}" height="${height}" `);
    return text.replace(/var\((--[\w-]+)\)/g, (_, name) => light.getPropertyValue(name).trim());
  }

  const taken = new Map();
  function take(kind, type, place, about, content) {
    const stem = [document.querySelector("h1").textContent, place.closest("section")?.id ?? "page"].join(" ");
    const name = stem.toLowerCase().replace(/[^a-z0-9]+/g, "-").slice(0, 80);
    taken.set(name, (taken.get(name) ?? 0) + 1);
    const file = `${name}-${taken.get(name)}.${kind.toLowerCase()}`;
    const button = make("button", { type: "button", textContent: kind, ariaLabel: `${kind} of: ${about}` });
    button.addEventListener("click", () => {
      const link = make("a", { href: URL.createObjectURL(new Blob([content()], { type })), download: file });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    });
    place.after(make("p", { className: "take" }, button));
  }
  for (const table of all("main table")) {
    const place = table.closest(".wide") ?? table;
    const about = place.ariaLabel ?? place.closest("details")?.querySelector("summary").textContent ?? "the table";
    take("CSV", "text/csv", place, about, () => csv(table));
  }
  for (const figure of all("svg.figure")) {
    const name = figure.closest("figure")?.querySelector("figcaption b")?.textContent;
    take("SVG", "image/svg+xml", figure.closest(".wide") ?? figure, name ?? figure.ariaLabel, () => svg(figure));
  }

  const PER_PAGE = 25;
  // Its state is in the address (#rollouts?split=test&result=wrong), so that a view can be kept as a link.
  function browse(table) {
    const place = table.closest("section").id;
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells].map(main), names = [...table.tHead.rows[0].cells].map(title);
    table.classList.add("cards");
    for (const row of body.rows) [...row.cells].forEach((cell, at) => { cell.dataset.name = names[at]; });
    const rows = [...body.rows].map((row) => ({ row, words: row.textContent.toLowerCase() }));
    const search = make("input", { name: "text", type: "search", autocomplete: "off" });
    const filters = table.dataset.filters.split("|").filter((name) => name).map((name) => {
      const at = heads.indexOf(name), counts = new Map();
      for (const one of rows) counts.set((one[name] = main(one.row.cells[at])), (counts.get(one[name]) ?? 0) + 1);
      const values = [...counts].sort().map(([value, count]) => make("option", { value, textContent: `${value} (${count})` }));
      const select = make("select", { name: name.toLowerCase().replaceAll(" ", "-") }, make("option", { value: "", textContent: "all" }), ...values);
      return { name, select };
    });
    const fields = [...filters.map((one) => one.select), search];
    const labels = [...filters.map((one) => one.name), "Any text contains"].map((name, at) => make("label", {}, name, fields[at]));
    const form = make("form", { className: "filters", ariaLabel: "Filters" }, ...labels, make("button", { type: "reset", textContent: "Clear" }));
    const before = make("button", { type: "button", textContent: "Previous" }), after = make("button", { type: "button", textContent: "Next" });
    const count = make("span", { role: "status" });
    const keys = make("span", {}, "In the table: arrow keys go from row to row, Page Up and Page Down turn pages.");
    table.closest(".wide").before(form, make("div", { className: "pager" }, before, after, count, keys));
    let page = 1, shown = [];

    function render() {
      const wanted = search.value.toLowerCase();
      table.found = rows.filter((one) => one.words.includes(wanted) &&
        filters.every(({ name, select }) => !select.value || one[name] === select.value)).map((one) => one.row);
      const pages = Math.max(1, Math.ceil(table.found.length / PER_PAGE)), total = table.found.length;
      page = Math.min(Math.max(page, 1), pages);
      const first = (page - 1) * PER_PAGE;
      shown = table.found.slice(first, first + PER_PAGE);
      shown.forEach((row, at) => { row.tabIndex = at ? -1 : 0; });
      body.replaceChildren(...shown);
      count.textContent = total ? `${first + 1} to ${first + shown.length} of ${total.toLocaleString("en")} rows` : "No row matches these filters.";
      before.disabled = page <= 1;
      after.disabled = page >= pages;
    }
    function remember() {
      const state = new URLSearchParams(fields.filter((one) => one.value).map((one) => [one.name, one.value]));
      if (page > 1) state.set("page", String(page));
      // replaceState may be refused for pages opened from disk; the view works without it.
      try { history.replaceState(null, "", `#${place}${state.size ? "?" : ""}${state}`); } catch (error) { void error; }
    }
    function recall() {
      const [where, text] = decodeURI(location.hash.slice(1)).split("?");
      if (where !== place || text === undefined) return;
      const state = new URLSearchParams(text);
      for (const one of fields) one.value = state.get(one.name) ?? "";
      page = Number(state.get("page")) || 1;
      document.getElementById(place).scrollIntoView();
    }
    function turn(to) {
      const pressed = document.activeElement;
      page = to;
      render();
      remember();
      // At an end the pressed button is disabled, and loses the focus: the keyboard goes on from the other one.
      if (pressed.disabled) (before.disabled ? after : before).focus();
    }
    function focus(row) {
      for (const one of shown) one.tabIndex = one === row ? 0 : -1;
      row?.focus();
    }

    body.addEventListener("keydown", (event) => {
      const at = shown.indexOf(event.target), last = shown.length - 1, turned = { PageUp: -1, PageDown: 1 }[event.key];
      const to = { ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: last }[event.key];
      if (at < 0 || (to ?? turned) === undefined) return;
      event.preventDefault();
      if (turned) turn(page + turned);
      focus(shown[turned ? 0 : Math.min(Math.max(to, 0), last)]);
    });
    for (const one of fields) one.addEventListener(one === search ? "input" : "change", () => turn(1));
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(() => turn(1), 0));
    before.addEventListener("click", () => turn(page - 1));
    after.addEventListener("click", () => turn(page + 1));
    window.addEventListener("hashchange", () => { recall(); render(); });
    recall();
    render();
  }
  all("table[data-filters]").forEach(browse);
})();
