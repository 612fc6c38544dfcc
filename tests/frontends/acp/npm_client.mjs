// The official TypeScript client drives codelet: node npm_client.mjs SDK_FOLDER WORKSPACE COMMAND...
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

const [sdk, workspace, command, ...args] = process.argv.slice(2);
const acp = await import(`${sdk}/dist/v1/stable/acp.js`);
const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const seen = { updates: [], asked: [] };
const client = acp
  .client({ name: "judge" })
  .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
    seen.asked.push(params.options.map((option) => option.kind));
    return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
  })
  .onNotification(acp.methods.client.session.update, ({ params }) => {
    seen.updates.push(params.update.sessionUpdate);
  });
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
await client.connectWith(stream, async (agent) => {
  const { agent: methods } = acp.methods;
  const about = await agent.request(methods.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
  seen.version = about.protocolVersion;
  const opened = await agent.request(methods.session.new, { cwd: workspace, mcpServers: [] });
  const sessionId = opened.sessionId;
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
child.stdin.end();
seen.exit = await new Promise((done) => child.on("exit", done));
console.log(JSON.stringify(seen));
