import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { delimiter, dirname, join, resolve } from 'node:path';
import { json, text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import {
  createWorkspace,
  eventually,
  FLOW_ID,
  githubManifest,
  type Service,
  startService,
  type Workspace,
} from '../e2e/service.ts';
import { temporaryFolder } from '../temporary.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const TOKEN = 'the-token-of-the-service';
const GITHUB = 'the-token-of-the-job';
const PULL = 7;

/** The comments of the pull request, as GitHub stores them. */
interface Comment {
  readonly id: number;
  readonly user: { readonly type: 'Bot' | 'User' };
  body: string;
}
let comments: Comment[];
let mayWrite: boolean;
let github: Server;
let api: string;

/** Answers only the script's questions to GitHub. */
async function startGithub(): Promise<void> {
  github = createServer(async (request, response) => {
    const path = `/repos/our/flows/issues/${PULL}/comments`;
    const answer = (status: number, body: object) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    };
    const { method, url = '', headers } = request;
    const [, edited] = /^\/repos\/our\/flows\/issues\/comments\/(\d+)$/.exec(url) ?? [];
    if (headers.authorization !== `Bearer ${GITHUB}`) return answer(401, { message: 'Bad credentials' });
    if (method === 'GET' && url.startsWith(`${path}?`)) return answer(200, url.endsWith('page=1') ? comments : []);
    if (!mayWrite) return answer(403, { message: 'Resource not accessible by integration' });
    const { body } = (await json(request)) as { body: string };
    const known = comments.find(({ id }) => String(id) === edited);
    if (method === 'PATCH' && known !== undefined) {
      known.body = body;
      return answer(200, { html_url: `https://github.example/our/flows/pull/7#${known.id}` });
    }
    if (method !== 'POST' || url !== path) return answer(404, { message: 'Not Found' });
    comments.push({ id: comments.length + 1, user: { type: 'Bot' }, body });
    return answer(201, { html_url: `https://github.example/our/flows/pull/7#${comments.length}` });
  }).listen(0, '127.0.0.1');
  await once(github, 'listening');
  api = `http://127.0.0.1:${(github.address() as AddressInfo).port}`;
}

let deployed: Workspace;
let service: Service;
let repository: Workspace;
let bin: string;

const waiting = (change: object = {}) => ({
  ...githubManifest({
    steps: {
      ask: { type: 'WaitForSignal', inputs: { signalName: 'go' } },
      next: { type: 'NoOp', runAfter: { ask: ['Succeeded'] } },
    },
    inputs: { webhookEnforcementMode: 'Enforce' },
  }),
  ...change,
});
const guarded = {
  steps: {
    ask: { type: 'WaitForSignal', inputs: { signalName: 'go' } },
    next: { type: 'NoOp', runAfter: { ask: { when: 'true' } } },
  },
};

beforeAll(async () => {
  await startGithub();
  deployed = await createWorkspace();
  await deployed.writeManifest('push.json', waiting());
  service = await startService(deployed, { SLUICE_DASHBOARD_TOKEN: TOKEN });
  const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' };
  const start = `${service.url}/flows/api/flows/${FLOW_ID}/trigger`;
  const { runId } = (await (await fetch(start, { method: 'POST', headers, body: '{}' })).json()) as { runId: string };
  await eventually(
    async () => {
      const answer = await fetch(`${service.url}/flows/api/runs/${runId}`, { headers });
      return (await answer.json()) as { steps: unknown[] };
    },
    ({ steps }) => steps.length > 0,
  );
  // Replaces npx, which would install the release: checks the package and runs the same command.
  bin = temporaryFolder('bin');
  const { name, version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'));
  await writeFile(
    join(bin, 'npx'),
    `#!/bin/sh
[ "$1 $2 $3 $4 $5" = "--yes --package ${name}@${version} -- sluice" ] || { echo "unexpected: $*" >&2; exit 1; }
shift 5
exec "${process.execPath}" "${join(ROOT, 'dist/cli.js')}" "$@"
`,
  );
  await chmod(join(bin, 'npx'), 0o755);
}, 60_000);
afterAll(async () => {
  await service.stop('SIGTERM');
  github.close();
});

beforeEach(async () => {
  comments = [];
  mayWrite = true;
  repository = await createWorkspace();
  // A pull request can add these files; they must not see the token.
  await writeFile(join(repository.folder, 'sluice.config.ts'), 'process.exit(99);');
  await writeFile(join(repository.folder, '.env'), 'SLUICE_PORT=nothing');
});
afterEach(() => repository.remove());

interface Result {
  readonly code: number | null;
  readonly log: string;
  readonly summary: string;
  readonly outputs: Readonly<Record<string, string>>;
}

/** Runs the commands of `action.yml` with the inputs, as the runner does, in a checkout of the pull request. */
async function act(inputs: Record<string, string> = {}, event: object = { pull_request: { number: PULL } }) {
  const { inputs: declared, runs } = parse(await readFile(join(ROOT, 'action.yml'), 'utf8'));
  const given: Record<string, string> = { url: service.url, token: TOKEN, 'github-token': GITHUB, ...inputs };
  const inputOf = (name: string) => given[name] ?? String(declared[name].default);
  const [step] = runs.steps.filter(({ run }: { run?: string }) => run !== undefined);
  const variables = Object.entries<string>(step.env).map(([name, value]) => [
    name,
    value.replace(/\$\{\{ inputs\.([\w-]+) \}\}/, (_, input) => inputOf(input)),
  ]);
  const place = temporaryFolder('job');
  await mkdir(join(place, 'home'));
  const files = { event: join(place, 'event.json'), summary: join(place, 'summary'), output: join(place, 'output') };
  await writeFile(files.event, JSON.stringify(event));
  for (const file of [files.summary, files.output]) await writeFile(file, '');
  const child = spawn('bash', ['-e', '-o', 'pipefail', '-c', step.run], {
    cwd: repository.folder,
    env: {
      PATH: [bin, dirname(process.execPath), process.env.PATH].join(delimiter),
      HOME: join(place, 'home'),
      GITHUB_ACTION_PATH: ROOT,
      GITHUB_API_URL: api,
      GITHUB_REPOSITORY: 'our/flows',
      GITHUB_EVENT_PATH: files.event,
      GITHUB_STEP_SUMMARY: files.summary,
      GITHUB_OUTPUT: files.output,
      // For example of a service that the job starts for tests.
      SLUICE_PORT: 'nothing',
      ...Object.fromEntries(variables),
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
  const outputs = (await readFile(files.output, 'utf8')).split('\n').filter(Boolean);
  const result: Result = {
    code,
    log: out + err,
    summary: await readFile(files.summary, 'utf8'),
    outputs: Object.fromEntries(outputs.map((line) => line.split('='))),
  };
  for (const said of [result.log, result.summary, JSON.stringify(comments)]) {
    for (const secret of [TOKEN, GITHUB]) expect(said).not.toContain(secret);
  }
  return result;
}

describe('the action', () => {
  it.each<[string, object, object]>([
    ['0 where a change is safe', waiting({ version: '2' }), { code: '0', class: 'safe', access: 'same' }],
    ['1 where a run in flight is in the way', waiting(guarded), { code: '1', class: 'caution', access: 'same' }],
    [
      '2 where more get in',
      { ...waiting(), triggers: githubTrigger({ webhookEnforcementMode: 'Off' }) },
      { code: '2', access: 'wider' },
    ],
    [
      '2 where a step with history goes',
      waiting({ steps: { other: { type: 'NoOp' } } }),
      { code: '2', class: 'breaking' },
    ],
    [
      '2 where a manifest has a mistake',
      waiting({ steps: { a: { type: 'Nope' } } }),
      { code: '2', class: '', access: '' },
    ],
  ])('ends with %s, and says so in the outputs, the summary and a comment', async (_, manifest, outputs) => {
    await repository.writeManifest('push.json', manifest);
    const result = await act();
    expect(result.outputs, result.log).toMatchObject(outputs);
    expect(String(result.code)).toBe(result.outputs.code);
    expect(result.summary).toMatch(/^### Sluice: /);
    expect(comments.map(({ body }) => body)).toEqual([
      `<!-- sluice check ${new URL(service.url).host} manifests -->\n${result.summary}`,
    ]);
  });

  it('says what happens to the run in flight, and which flow it is', async () => {
    await repository.writeManifest('push.json', waiting(guarded));
    const { summary } = await act();
    expect(summary).toContain('### Sluice: caution changes, 1 of 1 refused');
    expect(summary).toContain('| ` push ` | **caution, refused** | 1 | same |');
    expect(summary).toContain('1 run has not reached `next` (1 waits in `ask`)');
    expect(summary).toContain('Exit code 1:');
  });

  it('takes what is allowed for granted', async () => {
    await repository.writeManifest('push.json', waiting(guarded));
    expect(await act({ allow: 'caution' })).toMatchObject({ code: 0, outputs: { code: '0', class: 'caution' } });
  });

  it('writes in the place of its earlier comment, and in nobody else’s', async () => {
    await repository.writeManifest('push.json', waiting({ version: '2' }));
    const marker = `<!-- sluice check ${new URL(service.url).host} manifests -->`;
    comments.push({ id: 1, user: { type: 'User' }, body: `${marker}\nmine` });
    await act();
    await repository.writeManifest('push.json', waiting(guarded));
    await act();
    expect(comments.map(({ body }) => body.split('\n')[1])).toEqual([
      'mine',
      '### Sluice: caution changes, 1 of 1 refused',
    ]);
  });

  it('says why it could not check, and ends with 2', async () => {
    await repository.writeManifest('push.json', waiting());
    const denied = await act({ token: 'a-wrong-token' });
    expect(denied).toMatchObject({ code: 2, outputs: { code: '2', class: '' } });
    expect(denied.summary).toContain('could not be checked');
    expect(denied.summary).toContain('401');
    const away = await act({ url: 'http://127.0.0.1:9' });
    expect(away.summary).toContain('is the service running?');
    const wrong = await act({ url: 'nowhere' });
    expect(wrong.summary).toContain('expected the URL of a service');
    expect([away.code, wrong.code]).toEqual([2, 2]);
    const hidden = await act({ url: `http://u:${'hunter2'}@127.0.0.1:9` });
    expect(hidden.log + JSON.stringify(comments)).not.toContain('hunter2');
    expect((await act({ manifests: 'nowhere' })).code).toBe(2);
  });

  it('checks without a comment where there can be none', async () => {
    await repository.writeManifest('push.json', waiting({ version: '2' }));
    const pushed = await act({}, { ref: 'refs/heads/main' });
    expect(pushed).toMatchObject({
      code: 0,
      log: expect.stringContaining('::warning::No comment: this is not a pull'),
    });
    mayWrite = false;
    const forked = await act();
    expect(forked).toMatchObject({ code: 0, log: expect.stringContaining('GitHub answered 403') });
    mayWrite = true;
    expect((await act({ comment: 'false' })).code).toBe(0);
    expect(comments).toEqual([]);
  });

  it('lets no manifest speak to the runner, to a person or to another page', async () => {
    const name = '::error::owned `|` @everyone [x](https://evil.example) <img src=x>';
    await repository.writeManifest('push.json', waiting({ name, version: '2' }));
    const { log, summary } = await act();
    const [, pause = ''] = /^::stop-commands::(\S+)$/m.exec(log) ?? [];
    expect(log.indexOf('::error::')).toBeGreaterThan(log.indexOf(pause));
    expect(log.lastIndexOf('::error::')).toBeLessThan(log.indexOf(`\n::${pause}::`));
    const outsideOfCode = summary
      .replace(/^(`{3,})text\n[\s\S]*?\n\1$/gm, '')
      .replace(/(`+)(?!`)[\s\S]*?[^`]\1(?!`)/g, '');
    expect(outsideOfCode).not.toMatch(/everyone|evil|<img/);
    expect(summary).toContain('@everyone');
  });
});

function githubTrigger(inputs: object) {
  return (githubManifest({ inputs }) as { triggers: object }).triggers;
}
