// The web view. Everything it shows comes as Server-Sent Events from /events: first everything, then what has changed.
// They are read with fetch and not with EventSource, which cannot send a token.
"use strict";

const $ = (id) => document.getElementById(id);

// What a phase looks like: a letter, a pattern and a colour, so that none has to be told from another by colour alone.
const PHASES = {
  "": ["N", "coming", "New"],
  Pending: ["P", "coming", "Pending"],
  Available: ["A", "", "Available"],
  Running: ["R", "", "Running"],
  InPlaceUpdating: ["U", "updating", "InPlaceUpdating"],
  InPlaceUpdateSuccessful: ["S", "updating", "InPlaceUpdateSuccessful"],
  InPlaceUpdateFailed: ["!", "troubled", "InPlaceUpdateFailed"],
  Terminating: ["T", "going", "Terminating"],
  Unknown: ["?", "troubled", "Unknown"],
  CrashLoopBackOff: ["!", "troubled", "CrashLoopBackOff"],
  Failed: ["F", "troubled", "Failed"],
};
const look = (phase) => PHASES[phase] || [phase.slice(0, 1) || "?", "", phase];
const FEW = 40; // up to so many machines cells show how their names end
const MANY = 120; // beyond so many they are small
const KEPT = 200; // decisions in the page

let token = "";
let machines = new Map(); // name -> { set, phase, since, node }
let pools = [];
let cells = new Map(); // name -> button
let places = new Map(); // set -> where its cells go
let open = null; // what is explained: { kind, name }
let opener = null; // what had the focus before

const element = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") made.className = value;
    else if (key === "click") made.addEventListener("click", value);
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
};
const count = (number, thing) => `${number} ${thing}${number === 1 ? "" : "s"}`;
const age = (since) => {
  const seconds = Math.max(0, Math.round((Date.now() - Date.parse(since)) / 1000));
  return seconds < 120 ? `${seconds}s` : seconds < 7200 ? `${Math.floor(seconds / 60)}m` : `${Math.floor(seconds / 3600)}h`;
};

// --- pools -----------------------------------------------------------------------------------------------------------

function drawPools() {
  places = new Map();
  const drawn = pools.map((pool) => {
    const groups = element("div", { class: "groups" });
    for (const set of pool.sets) {
      const inside = element("div", { class: "cells", role: "group", "aria-label": `machines of ${set.name || pool.name}` });
      const mark = pool.kind === "machinedeployment" ? element("span", { class: "mark" }, set.current ? "new" : "old") : "";
      const title = set.name ? `${set.name} · class ${set.class}${set.revision ? ` · revision ${set.revision}` : ""}` : "";
      const group = element("div", { class: set.current ? "group" : "group old" }, element("h3", {}, mark, title), inside);
      groups.append(group);
      places.set(set.name, { inside, group, current: set.current, pool, set });
    }
    const name = pool.kind
      ? element("button", { class: "link", type: "button", click: () => explain(pool.kind, pool.name) }, pool.name)
      : pool.name;
    const states = [];
    if (pool.paused) states.push(element("span", { class: "state" }, "paused"));
    if (pool.frozen) states.push(element("span", { class: "state frozen" }, "frozen"));
    pool.facts = element("p", { class: "facts" });
    pool.bars = { new: element("span", { class: "new" }), old: element("span", { class: "old" }) };
    pool.said = element("p");
    pool.rollout = element("div", { class: "rollout" }, pool.said,
      element("div", { class: "bar", "aria-hidden": "true" }, pool.bars.new, pool.bars.old));
    const head = element("div", { class: "head" }, element("h2", {}, name), pool.facts, ...states);
    return element("article", { class: "pool" }, head, pool.rollout, groups);
  });
  const focused = document.activeElement?.dataset?.machine;
  $("pools").replaceChildren(...drawn);
  if (!drawn.length) $("pools").append(element("p", { class: "none" }, "No pools yet. Create a MachineDeployment and watch."));
  // Cells are moved, not made anew, so that the roll-out is not a flicker.
  for (const name of [...machines.keys()].sort()) placeCell(name);
  if (focused) cells.get(focused)?.focus();
}

function placeCell(name) {
  const machine = machines.get(name);
  let cell = cells.get(name);
  if (!cell) {
    cell = element("button", { type: "button", class: "cell", tabindex: "-1", "data-machine": name, click: () => explain("machine", name) });
    cells.set(name, cell);
    // Only who is new arrives; who is moved from one drawing to the next does not.
    cell.dataset.fresh = "";
    setTimeout(() => delete cell.dataset.fresh, 400);
  }
  const place = places.get(machine.set) || places.get("");
  if (place && cell.parentNode !== place.inside) {
    const after = [...place.inside.children].find((other) => other.dataset.machine > name);
    place.inside.insertBefore(cell, after || null);
  }
  const [letter, pattern, word] = look(machine.phase);
  const old = place && !place.current;
  cell.className = `cell ${pattern} ${old ? "old" : "new"}`;
  cell.replaceChildren(letter, element("small", { "aria-hidden": "true" }, name.slice(name.lastIndexOf("-") + 1)));
  const node = machine.node ? `, node ${machine.node}` : "";
  const side = place?.pool.kind === "machinedeployment" ? (old ? ", old" : ", new") : "";
  cell.title = `${name}: ${word}${node}`;
  cell.setAttribute("aria-label", `${name}, ${word}${side}${node}`);
  cell.setAttribute("aria-pressed", String(open?.kind === "machine" && open.name === name));
}

// Counts, bars and what is told to whoever cannot see the cells.
let summary = "";
function summarize() {
  const phases = new Map();
  const told = [];
  for (const pool of pools) {
    let [running, fresh, old, all] = [0, 0, 0, 0];
    for (const machine of machines.values()) {
      const place = places.get(machine.set) || places.get("");
      if (place?.pool !== pool) continue;
      all += 1;
      const runs = machine.phase === "Running" || machine.phase === "Available";
      running += runs ? 1 : 0;
      if (!place.current) old += 1;
      else if (runs) fresh += 1;
    }
    pool.facts.textContent = pool.kind
      ? `${running} of ${pool.replicas} running, ${count(all, "machine")}${pool.strategy ? `, ${pool.strategy}` : ""}`
      : count(all, "machine");
    pool.rollout.hidden = old === 0;
    const said = `Roll-out: ${Math.min(fresh, pool.replicas)} of ${pool.replicas} new machines run, ${count(old, "old machine")} left`;
    pool.said.textContent = said;
    const whole = Math.max(fresh + old, pool.replicas, 1);
    pool.bars.new.style.width = `${(100 * fresh) / whole}%`;
    pool.bars.old.style.width = `${(100 * old) / whole}%`;
    told.push(`${pool.name}: ${old ? said : pool.facts.textContent}`);
  }
  for (const machine of machines.values()) phases.set(machine.phase, (phases.get(machine.phase) || 0) + 1);
  // A set that has no machines and wants none is history.
  for (const { inside, group, set, pool } of places.values()) {
    group.hidden = !inside.children.length && set.replicas === 0 && pool.sets.length > 1;
  }
  document.body.classList.toggle("many", machines.size > MANY);
  document.body.classList.toggle("few", machines.size <= FEW);
  const legend = Object.entries(PHASES).filter(([phase]) => phases.has(phase)).map(([phase, [letter, pattern, word]]) =>
    element("li", {}, element("span", { class: `cell ${pattern}`, "aria-hidden": "true" }, letter), `${word} ${phases.get(phase)}`));
  if (pools.some((pool) => !pool.rollout.hidden)) {
    legend.push(element("li", {}, element("span", { class: "cell old", "aria-hidden": "true" }), "striped: old template"));
  }
  $("legend").replaceChildren(...legend);
  const running = phases.get("Running") || 0;
  const strong = element("strong", {}, String(machines.size));
  $("totals").replaceChildren(strong, ` machines in ${count(pools.filter((pool) => pool.kind).length, "pool")}, ${running} running`);
  roving();
  summary = told.join(". ");
}

// Not with every change: whoever listens would hear nothing else.
setInterval(() => { if ($("announcement").textContent !== summary) $("announcement").textContent = summary; }, 5000);

// --- keyboard: one stop for tab, arrows between the cells ------------------------------------------------------------

let current = null;
function roving() {
  if (!current || !machines.has(current)) current = document.querySelector(".cells .cell")?.dataset.machine ?? null;
  for (const [name, cell] of cells) {
    const stop = name === current ? "0" : "-1";
    if (cell.getAttribute("tabindex") !== stop) cell.setAttribute("tabindex", stop);
  }
}

$("pools").addEventListener("keydown", (event) => {
  const cell = event.target.closest?.(".cell");
  if (!cell) return;
  const all = [...document.querySelectorAll(".cells .cell")];
  const at = all.indexOf(cell);
  const box = cell.getBoundingClientRect();
  const vertical = (direction) => {
    let best = null;
    let least = Infinity;
    for (const other of all) {
      const there = other.getBoundingClientRect();
      const down = direction * (there.top - box.top);
      const distance = down * 4 + Math.abs(there.left - box.left);
      if (down > 2 && distance < least) [best, least] = [other, distance];
    }
    return best;
  };
  const next = {
    ArrowRight: () => all[at + 1], ArrowLeft: () => all[at - 1], ArrowDown: () => vertical(1), ArrowUp: () => vertical(-1),
    Home: () => all[0], End: () => all[all.length - 1],
  }[event.key]?.();
  if (!next) return;
  event.preventDefault();
  current = next.dataset.machine;
  roving();
  next.focus();
});
$("pools").addEventListener("focusin", (event) => {
  const cell = event.target.closest?.(".cell");
  if (cell) { current = cell.dataset.machine; roving(); }
});
document.addEventListener("keydown", (event) => { if (event.key === "Escape" && open) shut(); });

// --- beside the pools ------------------------------------------------------------------------------------------------

const named = (kind, name) => element("button", { class: "link", type: "button", click: () => explain(kind, name) }, name);

function drawCalls(calls, waiting) {
  const out = Math.max(0, calls.length - waiting);
  $("calls-count").textContent = calls.length ? `${out} out${waiting ? `, ${waiting} waiting` : ""}` : "";
  const shown = calls.slice(0, 40).map((call) => element("li", {}, element("code", {}, `${call.call} `), named("machine", call.machine)));
  if (calls.length > 40) shown.push(element("li", {}, `and ${calls.length - 40} more`));
  $("calls").replaceChildren(...(shown.length ? shown : [element("li", { class: "none" }, "none")]));
}

function drawDrains(drains) {
  $("drains-count").textContent = drains.length || "";
  const shown = drains.slice(0, 30).map((drain) => {
    const standing = drain.ahead != null ? `waits for its turn, ${drain.ahead} ahead`
      : drain.count == null ? "reads its pods" : `${count(drain.count, "pod")} left`;
    const more = drain.count > drain.pods.length ? ` and ${drain.count - drain.pods.length} more` : "";
    return element("li", {}, named("machine", drain.machine), ` ${standing}${drain.node ? `, node ${drain.node}` : ""}`,
      element("p", { class: "pods" }, drain.pods.join(", ") + more));
  });
  if (drains.length > 30) shown.push(element("li", {}, `and ${drains.length - 30} more`));
  $("drains").replaceChildren(...(shown.length ? shown : [element("li", { class: "none" }, "none")]));
}

function addDecisions(decisions) {
  const list = $("timeline");
  for (const decision of decisions) {
    const at = new Date(decision.at);
    const row = element("li", {}, element("time", { datetime: decision.at }, at.toLocaleTimeString("en-GB")),
      element("span", { class: "did" }, named(decision.kind, decision.name), ` ${decision.did.join(", then ")}`),
      element("span", { class: "why" }, `because ${decision.because}`));
    if (decision.failed) row.append(element("span", { class: "failed" }, `✗ not done: ${decision.failed}`));
    list.prepend(row);
  }
  while (list.children.length > KEPT) list.lastChild.remove();
}

// --- explain ---------------------------------------------------------------------------------------------------------

async function explain(kind, name) {
  if (!open) opener = document.activeElement;
  const before = open;
  open = { kind, name };
  if (before?.kind === "machine" && machines.has(before.name)) placeCell(before.name);
  if (kind === "machine" && machines.has(name)) placeCell(name);
  await tell();
  if (open?.name === name) $("explained").focus();
}

async function tell() {
  if (!open) return;
  const { kind, name } = open;
  const answer = await ask(`/explain?kind=${encodeURIComponent(kind)}&name=${encodeURIComponent(name)}`).catch(() => null);
  if (!open || open.kind !== kind || open.name !== name) return;
  $("explained").textContent = `${kind}/${name}`;
  $("explanation").hidden = false;
  const body = $("explanation-body");
  if (!answer?.ok) {
    body.replaceChildren(element("p", {}, answer?.status === 404 ? "It is gone." : "The process does not answer."));
    return;
  }
  const found = await answer.json();
  const verdict = found.verdict;
  const standing = { fine: "✓ fine", working: "… on its way", troubled: "✗ in trouble" }[verdict.standing];
  const until = verdict.until ? `, until ${new Date(verdict.until).toLocaleTimeString("en-GB")}${verdict.then ? `; then ${verdict.then}` : ""}` : "";
  const rows = [
    ["stands", `${standing}: ${verdict.reason}`],
    ["next", verdict.steps.join("\n")],
    ["waits for", verdict.waitsFor ? verdict.waitsFor + until : ""],
    ["in the end", verdict.inTheEnd],
    ["what helps", verdict.unblock.join("\n")],
    ["below it", found.below.join("\n")],
    ["the process says", (found.leader ?? []).join("\n")],
    ["seen", found.seen.join("\n")],
    ["last wrote", found.lastOperation],
    ["not known", verdict.notKnown.join("\n")],
  ];
  const list = element("dl");
  for (const [what, said] of rows) if (said) list.append(element("dt", {}, what), element("dd", {}, said));
  body.replaceChildren(list);
}

function shut() {
  const { kind, name } = open;
  open = null;
  $("explanation").hidden = true;
  if (kind === "machine" && machines.has(name)) placeCell(name);
  (opener?.isConnected ? opener : cells.get(current))?.focus();
}
$("close").addEventListener("click", shut);
setInterval(() => { if (open && !document.hidden) tell(); }, 2000);

// --- what comes in ---------------------------------------------------------------------------------------------------

function take(kind, message) {
  if (kind === "everything") {
    machines = new Map();
    cells = new Map();
    current = null;
    $("timeline").replaceChildren();
    $("namespace").textContent = `namespace ${message.namespace}`;
  }
  for (const [name, machine] of Object.entries(message.machines || {})) machines.set(name, machine);
  for (const name of message.gone || []) {
    machines.delete(name);
    cells.get(name)?.remove();
    cells.delete(name);
  }
  if (message.pools) {
    pools = message.pools;
    drawPools();
  } else {
    for (const name of Object.keys(message.machines || {})) placeCell(name);
  }
  if (message.decisions) addDecisions(message.decisions);
  if ("calls" in message || "waiting" in message) {
    take.calls = message.calls ?? take.calls;
    take.waiting = message.waiting ?? take.waiting;
    drawCalls(take.calls, take.waiting);
  }
  if ("drains" in message) drawDrains(message.drains);
  if ("leads" in message || "frozen" in message) {
    take.leads = message.leads ?? take.leads;
    if ("frozen" in message) take.frozen = message.frozen;
    const said = take.frozen ? `Frozen, nothing is made or given up: ${take.frozen}`
      : take.leads ? "" : "This process does not lead: another one acts, and its decisions and calls are not shown here.";
    $("notice").hidden = !said;
    $("notice").textContent = said;
  }
  summarize();
}
take.calls = [];
take.waiting = 0;
take.leads = true;
take.frozen = null;

const ask = (path, options = {}) =>
  fetch(path, { ...options, cache: "no-store", headers: token ? { Authorization: `Bearer ${token}` } : {} });

function connection(state, said) {
  $("connection").className = `connection ${state}`;
  if ($("connection").textContent !== said) $("connection").textContent = said;
}

async function listen() {
  const answer = await ask("/events");
  if (answer.status === 401 || answer.status === 403) {
    $("login").hidden = false;
    $("refused").textContent = token ? await answer.text() : "";
    connection("lost", "not let in");
    if (!token) $("token").focus();
    return false;
  }
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  $("login").hidden = true;
  connection("live", "live");
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return true;
    rest += value;
    for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
      const fields = Object.fromEntries(rest.slice(0, end).split("\n").filter((line) => line.includes(": ") && !line.startsWith(":"))
        .map((line) => [line.slice(0, line.indexOf(": ")), line.slice(line.indexOf(": ") + 2)]));
      rest = rest.slice(end + 2);
      if (fields.data) take(fields.event, JSON.parse(fields.data));
    }
  }
}

async function keepListening() {
  for (let pause = 500; ; pause = Math.min(pause * 2, 10000)) {
    const begun = performance.now();
    let wanted = true;
    try { wanted = await listen(); } catch { /* told below: the process is away */ }
    if (!wanted) return;
    if (performance.now() - begun > 5000) pause = 500;
    connection("lost", "the process does not answer, trying again");
    await new Promise((done) => setTimeout(done, pause));
  }
}
$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  $("token").value = "";
  keepListening();
});
keepListening();
