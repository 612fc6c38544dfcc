// The official TypeScript client drives codelet: node npm_client.mjs SDK_FOLDER WORKSPACE COMMAND...
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

const [sdk, workspace, command, ...args] = process.argv.slice(2);
const acp = await import(`${sdk}/dist/v1/stable/acp.js`);
const { agent: methods } = acp.methods;
const seen = { updates: [], asked: [], loaded: [] };

// Start the program and work with it, keeping the kinds of its updates; return its exit status.
async function drive(updates, work) {
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
  const client = acp
    .client({ name: "judge" })
    .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
      seen.asked.push(params.options.map((option) => option.kind));
      return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
    })
    .onNotification(acp.methods.client.session.update, ({ params }) => {
      updates.push(params.update.sessionUpdate);
    });
  const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  await client.connectWith(stream, work);
  child.stdin.end();
  return await new Promise((done) => child.on("exit", done));
}

let sessionId;
seen.exit = await drive(seen.updates, async (agent) => {
  const about = await agent.request(methods.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
  seen.version = about.protocolVersion;
  const opened = await agent.request(methods.session.new, { cwd: workspace, mcpServers: [] });
  sessionId = opened.sessionId;
  seen.options = opened.configOptions.map((option) => option.id);
  const prompt = (text) => agent.request(methods.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
  seen.first = (await prompt("go")).stopReason;
  const running = prompt("wait");
  const calls = () => seen.updates.filter((kind) => kind === "tool_call").length;
  while (calls() < 3) await new Promise((done) => setTimeout(done, 50));
  await agent.notify(methods.session.cancel, { sessionId });
  seen.second = (await running).stopReason;
  await agent.request(methods.session.setConfigOption, { sessionId, configId: "mode", value: "auto" });
  await agent.request(methods.session.close, { sessionId });
});
await drive(seen.loaded, async (agent) => {
  await agent.request(methods.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
  const listed = await agent.request(methods.session.list, { cwd: workspace });
  seen.listed = listed.sessions.length === 1 && listed.sessions[0].sessionId === sessionId;
  await agent.request(methods.session.load, { sessionId, cwd: workspace, mcpServers: [] });
});
console.log(JSON.stringify(seen));
