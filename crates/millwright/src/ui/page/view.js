// The web view. All data comes as Server-Sent Events from /events: first the whole state, then changes.
// They are read with fetch, because EventSource cannot send a token.
"use strict";

const $ = (id) => document.getElementById(id);

// Appearance of a phase: a letter, a pattern and a colour, so that no phase is distinguished by colour alone.
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
const FEW = 40; // up to this number of machines, cells show the end of their names
const MANY = 120; // above this number of machines, cells are small
const KEPT = 200; // number of decisions in the page

let token = "";
let machines = new Map(); // name -> { set, phase, since, node }
let pools = [];
let cells = new Map(); // name -> button
let places = new Map(); // set -> container of its cells
let open = null; // the explained object: { kind, name }
let openedFrom = null; // element that had the focus before

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
      const container = element("div", { class: "cells", role: "group", "aria-label": `machines of ${set.name || pool.name}` });
      const mark = pool.kind === "machinedeployment" ? element("span", { class: "mark" }, set.current ? "current" : "previous") : "";
      const title = set.name ? `${set.name} · class ${set.class}${set.revision ? ` · revision ${set.revision}` : ""}` : "";
      const group = element("div", { class: set.current ? "group" : "group old" }, element("h3", {}, mark, title), container);
      groups.append(group);
      places.set(set.name, { container, group, current: set.current, pool, set });
    }
    const name = pool.kind
      ? element("button", { class: "link", type: "button", click: () => explain(pool.kind, pool.name) }, pool.name)
      : pool.name;
    const states = [];
    if (pool.paused) states.push(element("span", { class: "state" }, "paused"));
    if (pool.frozen) states.push(element("span", { class: "state frozen" }, "frozen"));
    pool.facts = element("p", { class: "facts" });
    pool.bars = { new: element("span", { class: "new" }), old: element("span", { class: "old" }) };
    pool.text = element("p");
    pool.rollout = element("div", { class: "rollout" }, pool.text,
      element("div", { class: "bar", "aria-hidden": "true" }, pool.bars.new, pool.bars.old));
    const head = element("div", { class: "head" }, element("h2", {}, name), pool.facts, ...states);
    return element("article", { class: "pool" }, head, pool.rollout, groups);
  });
  const focused = document.activeElement?.dataset?.machine;
  $("pools").replaceChildren(...drawn);
  if (!drawn.length) $("pools").append(element("p", { class: "none" }, "No pools. Create a MachineDeployment to see one."));
  // Cells are moved and not recreated, so that a rollout does not flicker.
  for (const name of [...machines.keys()].sort()) placeCell(name);
  if (focused) cells.get(focused)?.focus();
}

function placeCell(name) {
  const machine = machines.get(name);
  let cell = cells.get(name);
  if (!cell) {
    cell = element("button", { type: "button", class: "cell", tabindex: "-1", "data-machine": name, click: () => explain("machine", name) });
    cells.set(name, cell);
    // Animate new cells only, not cells that are moved.
    cell.dataset.fresh = "";
    setTimeout(() => delete cell.dataset.fresh, 400);
  }
  const place = places.get(machine.set) || places.get("");
  if (place && cell.parentNode !== place.container) {
    const after = [...place.container.children].find((other) => other.dataset.machine > name);
    place.container.insertBefore(cell, after || null);
  }
  const [letter, pattern, word] = look(machine.phase);
  const old = place && !place.current;
  cell.className = `cell ${pattern} ${old ? "old" : "new"}`;
  cell.replaceChildren(letter, element("small", { "aria-hidden": "true" }, name.slice(name.lastIndexOf("-") + 1)));
  const node = machine.node ? `, node ${machine.node}` : "";
  const side = place?.pool.kind === "machinedeployment" ? (old ? ", previous template" : ", current template") : "";
  cell.title = `${name}: ${word}${node}`;
  cell.setAttribute("aria-label", `${name}, ${word}${side}${node}`);
  cell.setAttribute("aria-pressed", String(open?.kind === "machine" && open.name === name));
}

// Updates counts and bars, and the text for screen readers.
let summary = "";
function summarize() {
  const phases = new Map();
  const texts = [];
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
    const text = `Rollout: ${Math.min(fresh, pool.replicas)} of ${pool.replicas} machines updated, ${count(old, "machine")} of the previous template left`;
    pool.text.textContent = text;
    const whole = Math.max(fresh + old, pool.replicas, 1);
    pool.bars.new.style.width = `${(100 * fresh) / whole}%`;
    pool.bars.old.style.width = `${(100 * old) / whole}%`;
    texts.push(`${pool.name}: ${old ? text : pool.facts.textContent}`);
  }
  for (const machine of machines.values()) phases.set(machine.phase, (phases.get(machine.phase) || 0) + 1);
  // Hide sets without machines and without desired replicas.
  for (const { container, group, set, pool } of places.values()) {
    group.hidden = !container.children.length && set.replicas === 0 && pool.sets.length > 1;
  }
  document.body.classList.toggle("many", machines.size > MANY);
  document.body.classList.toggle("few", machines.size <= FEW);
  const legend = Object.entries(PHASES).filter(([phase]) => phases.has(phase)).map(([phase, [letter, pattern, word]]) =>
    element("li", {}, element("span", { class: `cell ${pattern}`, "aria-hidden": "true" }, letter), `${word} ${phases.get(phase)}`));
  if (pools.some((pool) => !pool.rollout.hidden)) {
    legend.push(element("li", {}, element("span", { class: "cell old", "aria-hidden": "true" }), "previous template"));
  }
  $("legend").replaceChildren(...legend);
  const running = phases.get("Running") || 0;
  const strong = element("strong", {}, String(machines.size));
  $("totals").replaceChildren(strong, ` machines in ${count(pools.filter((pool) => pool.kind).length, "pool")}, ${running} running`);
  roving();
  summary = texts.join(". ");
}

// Announce at most every five seconds, because every change would flood screen readers.
setInterval(() => { if ($("announcement").textContent !== summary) $("announcement").textContent = summary; }, 5000);

// --- keyboard: one tab stop, arrow keys between the cells ------------------------------------------------------------

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
document.addEventListener("keydown", (event) => { if (event.key === "Escape" && open) closeExplanation(); });

// --- calls, drains, decisions ----------------------------------------------------------------------------------------

const named = (kind, name) => element("button", { class: "link", type: "button", click: () => explain(kind, name) }, name);

function drawCalls(calls, waiting) {
  const out = Math.max(0, calls.length - waiting);
  $("calls-count").textContent = calls.length ? `${out} in flight${waiting ? `, ${waiting} queued` : ""}` : "";
  const shown = calls.slice(0, 40).map((call) => element("li", {}, element("code", {}, `${call.call} `), named("machine", call.machine)));
  if (calls.length > 40) shown.push(element("li", {}, `and ${calls.length - 40} more`));
  $("calls").replaceChildren(...(shown.length ? shown : [element("li", { class: "none" }, "none")]));
}

function drawDrains(drains) {
  $("drains-count").textContent = drains.length || "";
  const shown = drains.slice(0, 30).map((drain) => {
    const standing = drain.ahead != null ? `queued, ${drain.ahead} ahead`
      : drain.count == null ? "listing pods" : `${count(drain.count, "pod")} left`;
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
      element("span", { class: "why" }, `reason: ${decision.because}`));
    if (decision.failed) row.append(element("span", { class: "failed" }, `✗ failed: ${decision.failed}`));
    list.prepend(row);
  }
  while (list.children.length > KEPT) list.lastChild.remove();
}

// --- explain ---------------------------------------------------------------------------------------------------------

async function explain(kind, name) {
  if (!open) openedFrom = document.activeElement;
  const before = open;
  open = { kind, name };
  if (before?.kind === "machine" && machines.has(before.name)) placeCell(before.name);
  if (kind === "machine" && machines.has(name)) placeCell(name);
  await showExplanation();
  if (open?.name === name) $("explained").focus();
}

async function showExplanation() {
  if (!open) return;
  const { kind, name } = open;
  const answer = await ask(`/explain?kind=${encodeURIComponent(kind)}&name=${encodeURIComponent(name)}`).catch(() => null);
  if (!open || open.kind !== kind || open.name !== name) return;
  $("explained").textContent = `${kind}/${name}`;
  $("explanation").hidden = false;
  const body = $("explanation-body");
  if (!answer?.ok) {
    body.replaceChildren(element("p", {}, answer?.status === 404 ? "The object no longer exists." : "The process does not respond."));
    return;
  }
  const found = await answer.json();
  const verdict = found.verdict;
  const standing = { fine: "✓ healthy", working: "… in progress", troubled: "✗ needs attention" }[verdict.standing];
  const until = verdict.until ? `, until ${new Date(verdict.until).toLocaleTimeString("en-GB")}${verdict.then ? `; then ${verdict.then}` : ""}` : "";
  const rows = [
    ["state", `${standing}: ${verdict.reason}`],
    ["next", verdict.steps.join("\n")],
    ["waiting for", verdict.waitsFor ? verdict.waitsFor + until : ""],
    ["deadline", verdict.inTheEnd],
    ["how to fix", verdict.unblock.join("\n")],
    ["children", found.below.join("\n")],
    ["process", (found.leader ?? []).join("\n")],
    ["observed", found.seen.join("\n")],
    ["last operation", found.lastOperation],
    ["unknown", verdict.notKnown.join("\n")],
  ];
  const list = element("dl");
  for (const [what, text] of rows) if (text) list.append(element("dt", {}, what), element("dd", {}, text));
  body.replaceChildren(list);
}

function closeExplanation() {
  const { kind, name } = open;
  open = null;
  $("explanation").hidden = true;
  if (kind === "machine" && machines.has(name)) placeCell(name);
  (openedFrom?.isConnected ? openedFrom : cells.get(current))?.focus();
}
$("close").addEventListener("click", closeExplanation);
setInterval(() => { if (open && !document.hidden) showExplanation(); }, 2000);

// --- messages --------------------------------------------------------------------------------------------------------

let updated = null; // time of the last message
function take(kind, message) {
  updated = new Date();
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
    const text = take.frozen ? `Frozen: no machines are created or marked Failed: ${take.frozen}`
      : take.leads ? "" : "Standby replica. The decisions and cloud calls of the leader are not shown here.";
    $("notice").hidden = !text;
    $("notice").textContent = text;
  }
  summarize();
}
take.calls = [];
take.waiting = 0;
take.leads = true;
take.frozen = null;

const ask = (path, options = {}) =>
  fetch(path, { ...options, cache: "no-store", headers: token ? { Authorization: `Bearer ${token}` } : {} });

function connection(state, text) {
  $("connection").className = `connection ${state}`;
  if ($("connection").textContent !== text) $("connection").textContent = text;
}

async function listen() {
  const answer = await ask("/events");
  if (answer.status === 401 || answer.status === 403) {
    $("login").hidden = false;
    $("refused").textContent = token ? await answer.text() : "";
    connection("lost", "Access denied");
    if (!token) $("token").focus();
    return false;
  }
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  $("login").hidden = true;
  connection("live", "Live");
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
    try { wanted = await listen(); } catch { /* reported below */ }
    if (!wanted) return;
    if (performance.now() - begun > 5000) pause = 500;
    connection("lost", `Disconnected${updated ? ` (last update ${updated.toLocaleTimeString("en-GB")})` : ""}. Reconnecting…`);
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
