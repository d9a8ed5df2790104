// Drives the official AG-UI clients of both generations. One JSON command per line in; one JSON
// line out per event, then one with what the client holds when its run is over. See driver.py.
import { createInterface } from "node:readline";
import { HttpAgent as Older } from "agui-old";
import { HttpAgent as Modern } from "agui-new";

const generations = { "0.0.59": Older, "1.0.0": Modern };
const agents = new Map(); // name → { agent, tap }

const tell = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

// The clients report frames they repair, drop or do not understand on the console only.
for (const level of ["debug", "info", "log", "warn", "error"]) {
  console[level] = (...words) => tell({ kind: "complaint", text: words.map(String).join(" ") });
}

// Keeps the bytes that the client is given, beside giving them to the client.
function newTap() {
  const tap = { sent: null, status: null, raw: null };
  tap.fetch = async (url, init) => {
    tap.sent = JSON.parse(init.body);
    const response = await fetch(url, init);
    const [forClient, forUs] = response.body.tee();
    tap.status = response.status;
    tap.raw = new Response(forUs).text();
    return new Response(forClient, response);
  };
  return tap;
}

function agentOf({ agent: name, generation, url, key, threadId }) {
  if (!agents.has(name)) {
    const tap = newTap();
    const headers = { authorization: `Bearer ${key}` };
    const agent = new generations[generation]({ url, headers, threadId, fetch: tap.fetch });
    agents.set(name, { agent, tap });
  }
  return agents.get(name);
}

async function run(command) {
  const { agent, tap } = agentOf(command);
  const { tag, runId, messages, forwardedProps, resume } = command;
  const over = { tag, kind: "over", callbacks: [], thrown: null };
  agent.addMessages(messages);
  const subscriber = {
    onEvent: ({ event }) => tell({ tag, kind: "event", event }),
    onRunFinishedEvent: ({ outcome }) => void over.callbacks.push(["finished", outcome ?? null]),
    onRunErrorEvent: ({ event }) => void over.callbacks.push(["error", event.code ?? null]),
    onRunFailed: ({ error }) => void over.callbacks.push(["failed", error.message]),
  };
  try {
    const asked = { runId, forwardedProps, tools: [], context: [], ...(resume && { resume }) };
    await agent.runAgent(asked, subscriber);
  } catch (error) {
    over.thrown = error.message;
  }
  const raw = await tap.raw;
  tell({ ...over, messages: agent.messages, sent: tap.sent, status: tap.status, raw });
}

for await (const line of createInterface({ input: process.stdin })) {
  run(JSON.parse(line));
}
