// The HTML page of `svcmapctl fleet serve`. It has one <style> and one <script> element. The script
// reads events from /events, and writes all values with textContent, so that no value is HTML.
#pragma once

namespace svcmap::api {

inline constexpr char kFleetPage[] = R"html(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>svcmap fleet</title>
<style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 72rem; padding: 1rem; }
h2 { font-size: 1.1rem; margin: 1.75rem 0 .5rem; }
h1, p { margin: .25rem 0; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid GrayText; padding: .3rem .75rem .3rem 0; text-align: left; vertical-align: top; }
.number { padding-right: 1.5rem; text-align: right; }
td:last-child { overflow-wrap: anywhere; width: 35%; }
#changes td:first-child { white-space: nowrap; }
#changes td:last-child { width: 100%; }
dl { display: grid; gap: .5rem; grid-template-columns: repeat(auto-fit, minmax(8rem, 1fr)); margin: 1rem 0; }
dl div { border: 1px solid GrayText; padding: .5rem .75rem; }
dl div.problem { border: 3px solid; }
dd { font-size: 1.6rem; margin: 0; }
#error { border: 3px solid; padding: .5rem .75rem; }
</style>
</head>
<body>
<h1>svcmap fleet</h1>
<p id="connection" role="status">Waiting for the first event.</p>
<p id="error" role="alert" hidden></p>
<noscript><p>This page needs JavaScript. <a href="status.json">status.json</a> contains the same data.</p></noscript>
<main hidden>
<p id="seq"></p>
<dl id="counts"></dl>
<p id="lag"></p>
<h2>Nodes with problems</h2>
<p id="shown"></p>
<table>
<thead><tr><th>Node</th><th>State</th><th class="number">Transactions behind</th>
<th class="number">Behind for</th><th class="number">Rejected objects</th>
<th class="number">Age of status</th><th>Reason</th></tr></thead>
<tbody id="nodes"></tbody>
</table>
<h2>Latest changes</h2>
<table><tbody id="changes"></tbody></table>
</main>
<script>
'use strict';
const get = id => document.getElementById(id);
function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}
function duration(seconds) {
  if (seconds < 100) return seconds + ' s';
  return seconds < 6000 ? Math.floor(seconds / 60) + ' min' : Math.floor(seconds / 3600) + ' h';
}
function row(cells) {
  const made = element('tr');
  for (const [text, className] of cells) made.append(element('td', text, className));
  return made;
}
function count(name, value, isProblem) {
  const made = element('div', undefined, isProblem && value > 0 ? 'problem' : '');
  made.append(element('dt', name), element('dd', value));
  return made;
}
function show(fleet) {
  get('error').hidden = !fleet.error;
  get('error').textContent = 'etcd cannot be read, so the data below is old: ' + fleet.error;
  if (fleet.error) return;
  get('connection').textContent = 'Live. Read from etcd at ' + fleet.time + '.';
  get('seq').textContent = 'The writer\'s seq is ' + fleet.head_seq + ', epoch ' + fleet.epoch +
    '. The nodes are compared with seq ' + fleet.seq + '.';
  get('counts').replaceChildren(
    count('nodes', fleet.total), count('up to date', fleet.up_to_date),
    count('behind', fleet.behind, true), count('rejecting', fleet.rejecting, true),
    count('unhealthy', fleet.unhealthy, true), count('silent', fleet.silent, true));
  get('lag').textContent = 'Largest lag: ' + fleet.max_lag + ' transactions, ' +
    duration(fleet.max_behind_seconds) + '. Rejected objects: ' + fleet.rejected_objects + '.';
  get('shown').textContent = fleet.problems === 0 ? 'No node has a problem.' :
    'Showing ' + fleet.nodes.length + ' of ' + fleet.problems + '.';
  get('nodes').replaceChildren(...fleet.nodes.map(node => row([
    [node.name], [node.state.replaceAll(',', ', ')],
    [node.lag > 0 ? node.lag : '', 'number'],
    [node.lag > 0 ? duration(node.behind_seconds) : '', 'number'],
    [node.rejected > 0 ? node.rejected : '', 'number'],
    [node.age_seconds === null ? 'never written' : duration(node.age_seconds), 'number'],
    [node.reason]])));
  get('changes').replaceChildren(...fleet.changes.map(change => row([[change.time], [change.text]])));
  document.title = (fleet.problems > 0 ? '(' + fleet.problems + ') ' : '') + 'svcmap fleet';
  document.querySelector('main').hidden = false;
}
const events = new EventSource('events');
events.onmessage = event => show(JSON.parse(event.data));
events.onerror = () => {
  get('connection').textContent = 'The connection to svcmapctl is lost, so the data is old. Reconnecting.';
};
</script>
</body>
</html>
)html";

}  // namespace svcmap::api
