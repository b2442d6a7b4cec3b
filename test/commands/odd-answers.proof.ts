import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runCli } from '../e2e/cli.ts';
import { createWorkspace, githubManifest, type Workspace } from '../e2e/service.ts';

const ID = '01900000-0000-7000-8000-000000000000';
/** Answers of other programs at the address of the service, by the first part of the path. */
const ANSWERS: Readonly<Record<string, readonly [status: number, body: string]>> = {
  nothing: [200, ''],
  page: [200, '<html>'],
  empty: [200, '{}'],
  list: [200, '[]'],
  objects: [200, '[{}]'],
  other: [200, '{"run":null,"message":5,"items":{},"id":7,"groups":[{}],"cursor":1}'],
  message: [200, '{"message":"hello"}'],
  busy: [429, '{"message":{"a":1},"reason":5}'],
  away: [503, '<html>'],
  teapot: [418, '[1]'],
};
const server = createServer(({ url = '' }, response) => {
  const [status, body] = ANSWERS[url.split('/')[1] ?? ''] ?? [404, ''];
  response.writeHead(status, { 'retry-after': 'soon; ,,' }).end(body);
});

let workspace: Workspace;
let origin = '';
beforeAll(async () => {
  workspace = await createWorkspace();
  await workspace.writeManifest('push.json', githubManifest());
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => void server.close());

/** Commands, and the answers that they can take for those of a service with nothing in it. */
it.each<[command: string, ...taken: string[]]>([
  ['status'],
  [`why ${ID}`],
  ['deliveries', 'list'],
  ['runs', 'list'],
  ['runs --group'],
  [`signal ${ID} approve`],
  [`retry ${ID}`],
  ['retry --status Failed'],
  ['retry --status Failed --yes'],
  [`cancel ${ID}`, 'message'],
  [`release-order ${ID}`, 'message'],
  [`redeliver ${ID}`],
  ['redeliver --filtered --yes'],
  [`restore ${ID} 1`],
  [`hold ${ID}`],
  [`disable ${ID}`],
  [`enable ${ID}`],
  [`drain ${ID}`],
  [`flows delete ${ID}`],
  ['flows list', 'list'],
  ['activity', 'list'],
  ['activity verify'],
  ['keys', 'list'],
  ['deploy'],
  ['reload'],
  [`evidence ${ID} -o evidence.json`],
  [`test save ${ID}`],
  [`replay ${ID} --from ORIGIN`],
  ['check --against ORIGIN'],
  ['listen push --count 1'],
  ['listen push --count 1 --as me --forward http://127.0.0.1:9'],
  ['schema infer push'],
])('%s ends with one line and 2 if another program answers', async (command, ...taken) => {
  const results = await Promise.all(
    Object.keys(ANSWERS)
      // It waits for a service that starts.
      .filter((name) => !(name === 'away' && command.includes('--forward')))
      .map(async (name) => {
        const args = command.replace('ORIGIN', `${origin}/${name}`).split(' ');
        const to = command.includes('ORIGIN') ? [] : ['--to', `${origin}/${name}`];
        return { name, ...(await runCli(workspace, [...args, ...to])) };
      }),
  );
  for (const { name, code, stderr } of results) {
    expect({ name, stderr, trace: /\n {4}at /.test(stderr) }).toMatchObject({ trace: false });
    expect({ name, stderr, code }).toMatchObject({ code: taken.includes(name) ? 0 : 2 });
  }
});
