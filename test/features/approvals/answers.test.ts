import { randomBytes } from 'node:crypto';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import type { SluiceApp } from '../../../src/app.ts';
import { type Link, seal } from '../../../src/features/approvals/links.ts';
import { defineHandler } from '../../../src/flows/handlers/handler.ts';
import type { Json } from '../../../src/model/json.ts';
import { eventually } from '../../eventually.ts';
import { useFolderApp } from '../../folder-app.ts';
import { ended, stepsOf, waiting } from '../waits.ts';

const FLOW = '5d0c1f7e-91a4-4b0b-8f0d-6a2f6f0c7e99';
const PUBLIC = 'https://user:pass@flows.example.com/';
const ANSWERS = '/flows/api/webhook/answers/';
const POLICY = "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; sandbox allow-forms";

const folder = useFolderApp();
let mails: Json[];
let failures: number;
beforeEach(() => {
  mails = [];
  failures = 0;
});

/** Takes its input out of the service, as a mail would. */
const mail = defineHandler({
  type: 'Mail',
  inputs: z.unknown(),
  run: ({ inputs }) => {
    mails.push(inputs as Json);
    if (mails.length > failures) return { kind: 'succeeded', output: { sent: inputs as Json } };
    return { kind: 'failed', code: 'no_mail', message: `not sent: ${JSON.stringify(inputs)}`, retryable: true };
  },
});

const behind = (key: string) => ({ runAfter: { [key]: ['Succeeded'] } });
const ask = (inputs: object = {}) => ({ type: 'WaitForSignal', inputs: { choices: ['approve', 'reject'], ...inputs } });
const ONE_QUESTION = {
  mail: { type: 'Mail', inputs: { link: `\${waits.approval.url}` } },
  approval: { ...ask({ question: `Deploy \${trigger.body.sha}?` }), ...behind('mail') },
  done: { type: 'NoOp', ...behind('approval') },
};

async function start(steps: object = ONE_QUESTION, settings: object = { publicUrl: PUBLIC }): Promise<SluiceApp> {
  const manifest = { id: FLOW, name: 'Deploy', version: '1', triggers: { byHand: { type: 'manual' } }, steps };
  await folder.writeManifest('deploy.json', manifest);
  return folder.start(settings, { extensions: { handlers: [mail] } });
}

async function begin(body: object = { sha: 'a1b2c3' }): Promise<string> {
  return String((await folder.ask('POST', `/flows/${FLOW}/trigger`, body)).answer.runId);
}

/** The paths of the links that were sent. */
async function links(count = 1): Promise<string[]> {
  const sent = await eventually(
    () => mails,
    ({ length }) => length >= count,
  );
  return sent.map((each) => {
    const { pathname, origin } = new URL(String(Object(each).link));
    expect(origin).toBe('https://flows.example.com');
    return pathname;
  });
}

async function link(): Promise<string> {
  return (await links())[0] ?? '';
}

/** A service with a run whose link was sent. */
async function mailed() {
  const app = await start();
  return { app, runId: await begin(), url: await link() };
}

const send = ({ fastify }: SluiceApp, url: string, payload: string, type = 'application/x-www-form-urlencoded') =>
  fastify.inject({ method: 'POST', url, payload, headers: { 'content-type': type } });

/** A link forged by someone who has the key of the service. */
async function forged({ store }: SluiceApp, given: Link): Promise<string> {
  return `${ANSWERS}${seal(await store.keepSecret({ name: 'answers', secret: randomBytes(32) }), given)}`;
}

describe('a link', () => {
  it('asks, changes nothing before somebody answers, and takes one answer', async () => {
    const { app, runId, url } = await mailed();
    await waiting(app, runId);
    for (const method of ['GET', 'HEAD', 'GET'] as const) {
      const page = await app.fastify.inject({ method, url: `${url}?choice=reject` });
      expect(page.statusCode).toBe(200);
      expect(page.headers).toMatchObject({
        'content-security-policy': POLICY,
        'x-content-type-options': 'nosniff',
        'cache-control': 'no-store',
        'referrer-policy': 'no-referrer',
        'content-type': 'text/html; charset=utf-8',
      });
      if (method === 'HEAD') continue;
      expect(page.body).toContain('<h1>Deploy a1b2c3?</h1>');
      expect(page.body).toContain('<button name="choice" value="approve">approve</button>');
      expect(page.body).toContain('<button name="choice" value="reject" class="picked">reject</button>');
    }
    expect((await stepsOf(app, runId)).approval?.status).toBe('Pending');
    const answered = await send(app, url, 'choice=approve');
    expect(answered).toMatchObject({
      statusCode: 200,
      body: expect.stringContaining('Your answer was taken: approve'),
    });
    expect(await ended(app, runId)).toMatchObject({ status: 'Succeeded' });
    const { approval } = await stepsOf(app, runId);
    expect(approval?.output).toEqual({ choice: 'approve', answeredAt: expect.any(String), by: 'link' });
    for (const again of [send(app, url, 'choice=approve'), send(app, url, 'choice=reject'), app.fastify.inject(url)]) {
      const { statusCode, headers } = await again;
      expect([statusCode, headers['content-security-policy']]).toEqual([410, POLICY]);
    }
    const { answer: activity } = await folder.ask('GET', '/activity?action=answerByLink');
    expect(activity).toMatchObject([
      { actor: 'anyone', clientIp: '127.0.0.1', target: { type: 'run', id: runId }, statusCode: 200 },
    ]);
    expect(activity[0].details).toEqual({ step: 'approval', choice: 'approve' });
  });

  it('takes the answer before its step waits, and keeps it', async () => {
    const { mail: mailed, approval } = ONE_QUESTION;
    const hold = { type: 'WaitForSignal', inputs: { signalName: 'go' }, ...behind('mail') };
    const app = await start({ mail: mailed, hold, approval: { ...approval, ...behind('hold') } });
    const runId = await begin();
    const url = await link();
    await waiting(app, runId, 'hold');
    // The question is an expression that is not evaluated yet.
    expect((await app.fastify.inject(url)).body).toContain('<h1>Deploy: approval?</h1>');
    expect((await send(app, url, 'choice=reject')).statusCode).toBe(200);
    expect((await send(app, url, 'choice=approve')).statusCode).toBe(410);
    await folder.ask('POST', `/runs/${runId}/signals/go`, {});
    await ended(app, runId);
    expect((await stepsOf(app, runId)).approval?.output).toMatchObject({ choice: 'reject' });
  });

  it('is of one round of a loop', async () => {
    const app = await start({
      each: {
        type: 'ForEach',
        forEach: ['a', 'b', 'c'],
        concurrencyLimit: 3,
        steps: {
          mail: { type: 'Mail', inputs: { link: `\${waits.approval.url}`, item: `\${loop.item}` } },
          approval: { ...ask({ question: 'Ship?' }), ...behind('mail') },
        },
      },
    });
    const runId = await begin();
    const urls = await links(3);
    expect(new Set(urls).size).toBe(3);
    await waiting(app, runId, 'each.0.approval');
    for (const [at, choice] of [
      ['b', 'reject'],
      ['a', 'approve'],
      ['c', 'reject'],
    ] as const) {
      const url = urls[mails.findIndex((each) => Object(each).item === at)] ?? '';
      expect((await app.fastify.inject(url)).body).toContain(`round ${'abc'.indexOf(at) + 1},`);
      expect((await send(app, url, `choice=${choice}`)).statusCode).toBe(200);
      expect((await send(app, url, `choice=${choice}`)).statusCode).toBe(410);
    }
    await ended(app, runId);
    const { each } = await stepsOf(app, runId);
    expect(each?.output).toMatchObject([{ choice: 'approve' }, { choice: 'reject' }, { choice: 'reject' }]);
  });

  it('gives one of several who answer at once what they wanted', async () => {
    const { app, runId, url } = await mailed();
    const choices = Array.from({ length: 10 }, (_, at) => (at % 2 === 0 ? 'approve' : 'reject'));
    const answers = await Promise.all(choices.map((choice) => send(app, url, `choice=${choice}`)));
    const taken = answers.map(({ statusCode }) => statusCode);
    expect(taken.toSorted()).toEqual([200, ...Array(9).fill(410)]);
    await ended(app, runId);
    const { approval } = await stepsOf(app, runId);
    expect(approval?.output).toMatchObject({ choice: choices[taken.indexOf(200)] });
  });

  it('is the same in every attempt, and after a restart; an operator who signals answers it', async () => {
    failures = 1;
    const retry = { maxAttempts: 3, backoffSeconds: 0 };
    const steps = { ...ONE_QUESTION, mail: { ...ONE_QUESTION.mail, retry } };
    await start(steps);
    const runId = await begin();
    const [first, second] = await links(2);
    expect(second).toBe(first);
    const app = await start(steps);
    expect((await app.fastify.inject(String(first))).statusCode).toBe(200);
    expect(await folder.ask('POST', `/runs/${runId}/signals/approval`, { choice: 'reject' })).toMatchObject({
      status: 200,
    });
    expect((await send(app, String(first), 'choice=approve')).statusCode).toBe(410);
    await ended(app, runId);
    expect((await stepsOf(app, runId)).approval?.output).toEqual({ choice: 'reject' });
  });

  it('is good again when a wait that ended in vain is tried again', async () => {
    const { mail: mailed } = ONE_QUESTION;
    const app = await start({ mail: mailed, approval: { ...ask({ timeoutSeconds: 0.05 }), ...behind('mail') } });
    const runId = await begin();
    const url = await link();
    await ended(app, runId);
    expect((await send(app, url, 'choice=approve')).statusCode).toBe(410);
    await folder.writeManifest('deploy.json', {
      ...{ id: FLOW, name: 'Deploy', version: '2', triggers: { byHand: { type: 'manual' } } },
      steps: { mail: mailed, approval: { ...ask({ choices: ['yes', 'approve'] }), ...behind('mail') } },
    });
    await app.reload();
    await folder.ask('POST', `/runs/${runId}/steps/approval/retry`);
    await waiting(app, runId);
    expect((await send(app, url, 'choice=reject')).statusCode).toBe(400);
    expect((await send(app, url, 'choice=yes')).statusCode).toBe(200);
    expect(await ended(app, runId)).toMatchObject({ status: 'Succeeded' });
  });

  it.each([
    ['was cancelled', async (runId: string) => void (await folder.ask('POST', `/runs/${runId}/cancel`, {}))],
    [
      'was removed',
      async (runId: string, { store }: SluiceApp) => {
        await folder.ask('POST', `/runs/${runId}/cancel`, {});
        await eventually(
          () => store.purgeRuns({ before: Date.now() + 1000, maxRows: 100 }),
          ({ isDone }) => isDone,
        );
      },
    ],
  ])('of a run that %s is gone', async (_what, end) => {
    const { app, runId, url } = await mailed();
    await waiting(app, runId);
    await end(runId, app);
    expect((await app.fastify.inject(url)).statusCode).toBe(410);
    expect((await send(app, url, 'choice=approve')).statusCode).toBe(410);
  });

  it('is gone 90 days after its run started', async () => {
    const app = await start();
    const runId = await begin();
    await link();
    const expired = await forged(app, { runId, stepKey: 'approval', expiresAt: Date.now() - 60_000 });
    expect((await send(app, expired, 'choice=approve')).statusCode).toBe(410);
    const early = await forged(app, { runId, stepKey: 'approval', expiresAt: Date.now() + 120_000 });
    expect((await app.fastify.inject(early)).statusCode).toBe(200);
  });

  it('that was never given out is not found, and a guesser is told to wait; who has one is not held up', async () => {
    const { app, runId, url } = await mailed();
    const token = url.slice(ANSWERS.length);
    const bytes = Buffer.from(token, 'base64url');
    const changed = (at: number) =>
      Buffer.from(bytes.map((byte, index) => (index === at ? byte ^ 1 : byte))).toString('base64url');
    const own = seal(randomBytes(32), { runId, stepKey: 'approval', expiresAt: Date.now() + 9e8 });
    const others = [
      ...[0, 15, 16, 31, 32, 35, bytes.length - 1].map(changed),
      own,
      token.slice(0, -1),
      `${token}A`,
      `${token}%20`,
      `${token}=`,
      token.replace(/.$/, (last) => String.fromCharCode(last.charCodeAt(0) + 1)),
      'a',
      bytes.subarray(0, 36).toString('base64url'),
      encodeURIComponent('ü💥'.repeat(9)),
      'constructor',
    ];
    const found: number[] = [];
    for (const other of others) found.push((await app.fastify.inject(`${ANSWERS}${other}`)).statusCode);
    expect(found).toEqual(others.map(() => 404));
    for (let tries = others.length; tries < 20; tries += 1) await app.fastify.inject(`${ANSWERS}${own}`);
    const late = await send(app, `${ANSWERS}${own}`, 'choice=approve');
    expect([late.statusCode, late.headers['retry-after']]).toEqual([429, '60']);
    expect((await send(app, url, 'choice=approve')).statusCode).toBe(200);
    expect(await ended(app, runId)).toMatchObject({ status: 'Succeeded' });
  });

  it.each([
    ['another choice', 'choice=maybe', undefined, 400],
    ['none', '', undefined, 400],
    ['one with a space', 'choice=approve+', undefined, 400],
    ['JSON', '{"choice":"approve"}', 'application/json', 200],
    ['JSON that is broken', '{"choice":', 'application/json', 400],
    ['a list', '{"choice":["approve"]}', 'application/json', 400],
    ['a name that objects have', 'choice=constructor', undefined, 400],
    [
      'a file',
      '--x\r\nContent-Disposition: form-data; name="choice"\r\n\r\napprove\r\n--x--',
      'multipart/form-data; boundary=x',
      400,
    ],
    ['a type that is none', 'choice=approve', ';;;', 415],
    ['more than an answer', `choice=approve&x=${'x'.repeat(5000)}`, undefined, 413],
  ])('that is answered by %s says so', async (_what, body, type, status) => {
    const { app, runId, url } = await mailed();
    await waiting(app, runId);
    const answered = await send(app, url, body, type);
    expect([answered.statusCode, answered.headers['content-security-policy']]).toEqual([status, POLICY]);
    if (status === 400) expect(answered.body).toContain('<button name="choice" value="approve">');
    expect((await app.fastify.inject(url)).statusCode).toBe(status === 200 ? 410 : 200);
  });

  it('takes the choice of its address where nothing else is sent, and never in the place of what is', async () => {
    const app = await start();
    const runId = await begin();
    const url = `${await link()}?choice=approve`;
    const form = '--x\r\nContent-Disposition: form-data; name="choice"\r\n\r\nreject\r\n--x--';
    for (const [body, type] of [
      [form, 'multipart/form-data; boundary=x'],
      ['{"choice":', 'application/json'],
      ['choice=', 'application/x-www-form-urlencoded'],
    ] as const) {
      expect((await send(app, url, body, type)).statusCode).toBe(400);
    }
    expect((await send(app, url, '')).statusCode).toBe(200);
    await ended(app, runId);
    expect((await stepsOf(app, runId)).approval?.output).toMatchObject({ choice: 'approve' });
  });

  it('that contradicts itself answers nothing', async () => {
    const app = await start();
    await begin();
    const url = await link();
    const [form, json] = ['application/x-www-form-urlencoded', 'application/json'];
    for (const [query, body, type] of [
      ['', 'choice=approve&choice=reject', form],
      ['', '{"choice":"reject","choice":"approve"}', json],
      ['?choice=reject', 'choice=approve', form],
      ['?choice=reject', '{"choice":"approve"}', json],
      ['?choice=approve&choice=reject', '', form],
      ['?choice=approve&choice=reject', 'choice=approve', form],
    ] as const) {
      expect((await send(app, `${url}${query}`, body, type)).statusCode).toBe(400);
    }
    const page = (await app.fastify.inject(`${url}?choice=reject`)).body;
    // The page of a highlighted choice posts without it: people may press another button.
    expect(page).toContain('<form method="post" action="?">');
    expect((await send(app, `${url}?choice=approve`, 'choice=approve', form)).statusCode).toBe(200);
  });

  it('is in nothing that is recorded, and not in the log', async () => {
    failures = 1;
    const shown = `\${waits.approval.url}`;
    const app = await start({
      tell: { type: 'LogMessage', inputs: { message: `answer at ${shown}?choice=approve` } },
      form: {
        type: 'Transform',
        inputs: { value: [`\${waits}`, `\${waits.approval.url.split("/")}`, { k: shown }] },
      },
      mail: { type: 'Mail', inputs: { link: shown }, retry: { maxAttempts: 2, backoffSeconds: 0 } },
      approval: { ...ask({ question: `Deploy? ${shown}` }), ...behind('mail') },
    });
    const runId = await begin();
    const url = await link();
    await waiting(app, runId);
    await send(app, url, 'choice=approve');
    await ended(app, runId);
    const told = [
      await folder.ask('GET', `/runs/${runId}/steps`),
      await folder.ask('GET', '/activity?take=100'),
      folder.logged,
    ];
    for (const text of told) expect(JSON.stringify(text)).not.toContain(url.slice(ANSWERS.length));
    expect(folder.logged.join('\n')).toContain('answer at ***?choice=approve');
  });

  it('shows what others wrote as text', async () => {
    const choices = ['<b>yes</b>', '"><script>1</script>'];
    const { mail: mailed } = ONE_QUESTION;
    const app = await start({
      mail: mailed,
      approval: { ...ask({ choices, question: `\${trigger.body.sha}` }), ...behind('mail') },
    });
    const runId = await begin({ sha: '</h1><img src=x onerror=alert(1)>' });
    const url = await link();
    await waiting(app, runId);
    const pages = [
      await app.fastify.inject(`${url}?choice=%22%3E%3Cscript%3E`),
      await send(app, url, 'choice=<script>'),
      await send(app, url, new URLSearchParams({ choice: choices[1] ?? '' }).toString()),
    ];
    expect(pages.map(({ statusCode }) => statusCode)).toEqual([200, 400, 200]);
    for (const { body } of pages) expect(body).not.toMatch(/<(script|img|b)\b/);
    await ended(app, runId);
    expect((await stepsOf(app, runId)).approval?.output).toMatchObject({ choice: choices[1] });
  });
});

it('a link takes no other methods, and loads its style from next to it', async () => {
  const { app, url } = await mailed();
  for (const method of ['PUT', 'DELETE', 'PATCH', 'OPTIONS'] as const) {
    const refused = await app.fastify.inject({ method, url });
    expect([refused.statusCode, refused.headers.allow]).toEqual([405, 'GET, HEAD, POST']);
  }
  const [, href = ''] = /<link rel="stylesheet" href="([^"]*)">/.exec((await app.fastify.inject(url)).body) ?? [];
  const style = await app.fastify.inject(new URL(href, `http://x${url}`).pathname);
  expect(style).toMatchObject({ statusCode: 200 });
  expect(style.headers).toMatchObject({
    'content-type': 'text/css; charset=utf-8',
    'cross-origin-resource-policy': 'cross-origin',
  });
});

it('a webhook named answers, and longer paths, stay what they were', async () => {
  const inputs = { webhookSlug: 'answers', webhookEnforcementMode: 'Off' };
  await folder.writeManifest('hook.json', {
    ...{
      id: FLOW.replace('5d', '6d'),
      version: '1',
      triggers: { hook: { type: 'webhook', inputs } },
      steps: { a: { type: 'NoOp' } },
    },
  });
  const app = await start();
  for (const path of ['answers', 'answers/']) {
    expect((await send(app, `/flows/api/webhook/${path}`, '{}', 'application/json')).json()).toMatchObject({
      runId: expect.any(String),
    });
  }
  await begin();
  for (const path of [`${await link()}/`, `${await link()}/x`, `${ANSWERS}a/b`]) {
    expect((await app.fastify.inject(path)).json()).toMatchObject({ statusCode: 404, reason: 'unknown_flow' });
  }
});

it('without the address of the service there are no links, and those before lead nowhere', async () => {
  const { app, runId, url } = await mailed();
  await waiting(app, runId);
  const off = await start(ONE_QUESTION, {});
  expect(off.warnings.join('\n')).toContain('SLUICE_PUBLIC_URL is not set');
  expect((await off.fastify.inject(url)).statusCode).toBe(404);
  const failed = await begin();
  await ended(off, failed);
  expect((await stepsOf(off, failed)).mail?.error).toMatchObject({
    code: 'expression_failed',
    message: expect.stringContaining('SLUICE_PUBLIC_URL is not set'),
  });
  onTestFinished(() => expect(mails).toHaveLength(1));
});
