// Shows the page's rollouts, filtered. Its state is in the address (#rollouts?split=test&right=no), so that a view can
// be kept as a link. Texts of models go to textContent only.
"use strict";
(function () {
  const holder = document.getElementById("rollout-data");
  const form = document.getElementById("rollout-filters");
  if (!holder || !form) return;
  const data = JSON.parse(holder.textContent);
  const at = Object.fromEntries(data.columns.map((name, place) => [name, place]));
  const body = document.querySelector("#rollout-table tbody");
  const count = document.getElementById("rollout-count");
  const before = document.getElementById("rollout-before");
  const after = document.getElementById("rollout-after");
  const perPage = 25;
  const NONE = "(none)";
  const fields = ["split", "outcome", "gold", "predicted", "right", "text"];
  let page = 1;

  const get = (row, name) => row[at[name]];
  const rightness = (row) =>
    get(row, "failure") ? "failed" : get(row, "predicted") === null ? "invalid"
      : get(row, "predicted") === get(row, "gold") ? "yes" : "no";
  const shown = (row, name) => {
    const value = name === "right" ? rightness(row) : get(row, name);
    return value === null || value === "" ? NONE : String(value);
  };
  const rightWords = { yes: "right", no: "wrong", invalid: "invalid answer", failed: "failed rollout" };

  function fill(name, order) {
    const select = form.elements[name];
    const found = new Map();
    for (const row of data.rows) found.set(shown(row, name), (found.get(shown(row, name)) || 0) + 1);
    const known = order.filter((value) => found.has(value));
    const others = [...found.keys()].filter((value) => !order.includes(value)).sort();
    for (const value of [...known, ...others]) {
      const option = document.createElement("option");
      option.value = value;
      const words = name === "right" ? rightWords[value] : name === "split" ? data.splits[value] || value : value;
      option.textContent = `${words} (${found.get(value)})`;
      select.append(option);
    }
  }

  function matching() {
    const wanted = fields.map((name) => [name, form.elements[name].value]).filter(([, value]) => value !== "");
    return data.rows.filter((row) => wanted.every(([name, value]) =>
      name === "text"
        ? (get(row, "text") + " " + get(row, "prompt_id")).toLowerCase().includes(value.toLowerCase())
        : shown(row, name) === value));
  }

  function cell(row, className) {
    const made = document.createElement("td");
    if (className) made.className = className;
    row.append(made);
    return made;
  }

  function labelled(made, label) {
    if (label === null || label === "") {
      made.append(Object.assign(document.createElement("span"), { className: "missing", textContent: "none" }));
      return;
    }
    const place = data.labels.indexOf(label);
    const slot = data.slots[place];
    if (place >= 0) {
      made.append(Object.assign(document.createElement("span"),
        { className: `swatch class-${slot} shape-${slot}`, ariaHidden: "true" }));
    }
    made.append(label);
  }

  function under(made, text) {
    made.append(Object.assign(document.createElement("small"), { className: "under", textContent: text }));
  }

  function show(row) {
    const made = document.createElement("tr");
    cell(made, "number").textContent = get(row, "step");
    const where = cell(made);
    where.textContent = get(row, "prompt_id");
    under(where, `${data.splits[get(row, "split")] || get(row, "split")}, sample ${get(row, "sample")}`);
    labelled(cell(made, "nowrap"), get(row, "gold"));
    const predicted = cell(made, "nowrap");
    labelled(predicted, get(row, "predicted"));
    if (get(row, "confidence")) under(predicted, `confidence ${get(row, "confidence")}`);
    const came = cell(made, "nowrap");
    const right = rightness(row);
    came.append(Object.assign(document.createElement("span"),
      { className: right === "yes" ? "right-mark" : "wrong-mark", textContent: rightWords[right] }));
    if (get(row, "outcome") && get(row, "outcome") !== "ok") under(came, get(row, "outcome"));
    const reward = cell(made, "number");
    if (get(row, "total") === null) {
      reward.append(Object.assign(document.createElement("span"), { className: "missing", textContent: "not rewarded" }));
    } else {
      reward.textContent = get(row, "total").toFixed(2);
      const terms = Object.entries(get(row, "terms") || {}).filter(([, value]) => value !== 0);
      if (terms.length) under(reward, terms.map(([name, value]) => `${name} ${value.toFixed(2)}`).join(", "));
      if (get(row, "advantage") !== null) under(reward, `advantage ${get(row, "advantage").toFixed(2)}`);
    }
    const text = document.createElement("pre");
    const failure = get(row, "failure");
    text.textContent = failure ? `${failure[0]}: ${failure[1]}` : get(row, "text") || "(empty text)";
    cell(made).append(text);
    return made;
  }

  function render() {
    const rows = matching();
    const pages = Math.max(1, Math.ceil(rows.length / perPage));
    page = Math.min(Math.max(page, 1), pages);
    const first = (page - 1) * perPage;
    body.replaceChildren(...rows.slice(first, first + perPage).map(show));
    count.textContent = rows.length
      ? `${first + 1} to ${Math.min(first + perPage, rows.length)} of ${rows.length} shown here`
      : "No rollout shown here matches these filters.";
    before.disabled = page <= 1;
    after.disabled = page >= pages;
  }

  function remember() {
    const state = new URLSearchParams();
    for (const name of fields) if (form.elements[name].value) state.set(name, form.elements[name].value);
    if (page > 1) state.set("page", String(page));
    const text = state.toString();
    // replaceState may be refused for pages opened from disk; the view works without it.
    try { history.replaceState(null, "", text ? `#rollouts?${text}` : "#rollouts"); } catch (error) { void error; }
  }

  function recall() {
    const [place, text] = decodeURI(location.hash.slice(1)).split("?");
    if (place !== "rollouts" || text === undefined) return;
    const state = new URLSearchParams(text);
    for (const name of fields) form.elements[name].value = state.get(name) || "";
    page = Number(state.get("page")) || 1;
    document.getElementById("rollouts").scrollIntoView();
  }

  fill("split", Object.keys(data.splits));
  fill("outcome", ["ok"]);
  fill("gold", data.labels);
  fill("predicted", data.labels);
  fill("right", Object.keys(rightWords));
  const changed = () => { page = 1; render(); remember(); };
  for (const name of fields) form.elements[name].addEventListener(name === "text" ? "input" : "change", changed);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(changed, 0));
  before.addEventListener("click", () => { page -= 1; render(); remember(); });
  after.addEventListener("click", () => { page += 1; render(); remember(); });
  window.addEventListener("hashchange", () => { recall(); render(); });
  recall();
  render();
})();
