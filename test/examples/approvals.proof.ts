import { createHmac, randomBytes, randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { eventually, type Service } from '../e2e/service.ts';
import { deliver } from './deliver.ts';
import { type Asked, copyExample, type FakeService, fakeService, serveExample, variableOf } from './example.ts';

async function started() {
  const example = await copyExample('approvals');
  const people = await fakeService(await variableOf(example, 'MAIL_URL'), () => ({ body: {} }));
  return { example, people, service: await serveExample(example) };
}

const FLOWS = {
  slack: 'f1c0b7a4-6d29-4e35-8a17-3b5e9d2c6a01',
  mail: 'f1c0b7a4-6d29-4e35-8a17-3b5e9d2c6a03',
  slackButton: 'f1c0b7a4-6d29-4e35-8a17-3b5e9d2c6a04',
  githubReview: 'f1c0b7a4-6d29-4e35-8a17-3b5e9d2c6a05',
  mailReply: 'f1c0b7a4-6d29-4e35-8a17-3b5e9d2c6a06',
};

async function trigger({ url }: Service, flow: keyof typeof FLOWS, body: object): Promise<string> {
  const sent = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  const started = await fetch(`${url}/flows/api/flows/${FLOWS[flow]}/trigger`, sent);
  expect(started.status).toBe(200);
  return Object(await started.json()).runId;
}

const got = async ({ asked }: FakeService, count: number): Promise<readonly Asked[]> =>
  eventually(
    async () => asked,
    ({ length }) => length >= count,
  );

/** Waits until the run waits for an answer. */
const waiting = ({ url }: Service, runId: string) =>
  eventually(
    async () => (await fetch(`${url}/flows/api/runs?waiting=signal&search=${runId}`)).json(),
    (answer) => JSON.stringify(answer).includes(runId),
  );

/** The content of a mail or message. */
const said = (asked: Asked | undefined): Record<string, unknown> => JSON.parse(asked?.body ?? '{}');

/** Opens the link for this choice in a message, sees the choice highlighted, and presses it. */
async function answer({ url }: Service, { body }: Asked, choice: string): Promise<number> {
  const offered = [...body.matchAll(/http:\/\/127\.0\.0\.1:3000([^"\\ ]*)/g)].map(
    ([, path = '']) => new URL(path, url),
  );
  const link = offered.find(({ searchParams }) => searchParams.get('choice') === choice) ?? offered[0];
  const page = await (await fetch(String(link))).text();
  expect(page).toContain(`<button name="choice" value="${choice}"${link?.search === '' ? '' : ' class="picked"'}>`);
  return (await fetch(String(link), { method: 'POST', body: new URLSearchParams({ choice }) })).status;
}

it('asks in Slack by two buttons, and tells what was decided', async () => {
  const { people, service } = await started();
  await trigger(service, 'slack', { version: 'v7' });
  const [message] = await got(people, 1);
  expect(await answer(service, message as Asked, 'not now')).toBe(200);
  expect(JSON.parse((await got(people, 2))[1]?.body ?? '')).toEqual({ text: 'v7: not now' });
  expect(
    (await fetch(String(/http:[^"?]*answers[^"?]*/.exec(message?.body ?? '')).replace(/^http:\/\/[^/]*/, service.url)))
      .status,
  ).toBe(410);
});

it('asks for a review of a deployment at GitHub', async () => {
  const { example, people, service } = await started();
  const key = await variableOf(example, 'GITHUB_WEBHOOK_SECRET');
  const statuses = new URL('/repos/octocat/hello/deployments/1/statuses', await variableOf(example, 'MAIL_URL')).href;
  const deployment = { ref: 'main', environment: 'production', statuses_url: statuses };
  const body = JSON.stringify({ action: 'created', deployment, repository: { full_name: 'octocat/hello' } });
  const headers = { 'x-github-event': 'deployment', 'x-github-delivery': randomUUID() };
  const sent = await deliver(service, { slug: 'github-deployments', scheme: 'GitHub', key, body, headers });
  expect(sent.status).toBe(200);
  const [pending] = await got(people, 1);
  expect(JSON.parse(pending?.body ?? '')).toMatchObject({
    state: 'pending',
    log_url: expect.stringContaining('/answers/'),
  });
  expect(await answer(service, pending as Asked, 'approve')).toBe(200);
  expect(JSON.parse((await got(people, 2))[1]?.body ?? '')).toEqual({ state: 'in_progress', description: 'approve' });
});

it('asks several by mail, each by a link of their own, and pays when all have agreed', async () => {
  const { people, service } = await started();
  await trigger(service, 'mail', {
    number: 'R-7',
    amount: '120.00 EUR',
    approvers: ['ada@example.com', 'grace@example.com'],
  });
  for (const mail of await got(people, 2)) {
    expect(people.asked).toHaveLength(2);
    expect(await answer(service, mail, 'pay')).toBe(200);
  }
  expect(JSON.parse((await got(people, 3))[2]?.body ?? '')).toEqual({
    to: 'accounts@example.com',
    subject: 'Pay invoice R-7',
  });
});

it('takes the press of a button in Slack as the answer, once', async () => {
  const { example, people, service } = await started();
  const key = await variableOf(example, 'SLACK_SIGNING_SECRET');
  const runId = await trigger(service, 'slackButton', { version: 'v7' });
  const [message] = await got(people, 1);
  const blocks = JSON.stringify(said(message).blocks);
  expect(blocks).toContain(`"action_id":"not-now","value":"${runId}"`);
  await waiting(service, runId);
  const payload = {
    type: 'block_actions',
    user: { id: 'U1', username: 'ada' },
    actions: [{ type: 'button', action_id: 'not-now', value: runId }],
  };
  const body = String(new URLSearchParams({ payload: JSON.stringify(payload) }));
  const pressed = {
    slug: 'slack-buttons',
    scheme: 'Slack',
    key,
    body,
    contentType: 'application/x-www-form-urlencoded',
  };
  expect((await deliver(service, { ...pressed, key: 'of another app' })).status).toBe(401);
  expect(await deliver(service, pressed)).toMatchObject({ status: 200, body: { answered: 1 } });
  expect(said((await got(people, 2))[1])).toEqual({ text: 'v7: not-now, said ada' });
  expect((await deliver(service, pressed)).status).toBe(409);
});

it('goes on when somebody reviews a deployment at GitHub, also before the run waits', async () => {
  const { example, people, service } = await started();
  const key = await variableOf(example, 'GITHUB_WEBHOOK_SECRET');
  const review = (id: number, action: string) =>
    deliver(service, {
      slug: 'github-reviews',
      scheme: 'GitHub',
      key,
      headers: { 'x-github-event': 'deployment_review', 'x-github-delivery': randomUUID() },
      body: JSON.stringify({
        action,
        approver: { login: 'octocat' },
        comment: '',
        workflow_run: { id },
        repository: {},
      }),
    });
  const runId = await trigger(service, 'githubReview', { workflowRun: 9007199254740991, version: 'v7' });
  await waiting(service, runId);
  expect((await review(9007199254740991, 'requested')).body).toMatchObject({ filtered: true });
  expect((await review(9007199254740991, 'approved')).body).toMatchObject({ answered: 1 });
  expect(said((await got(people, 1))[0]).subject).toBe('v7 was approved by octocat');
  expect((await review(8, 'rejected')).body).toMatchObject({ answered: 0 });
  await trigger(service, 'githubReview', { workflowRun: 8, version: 'v8' });
  expect(said((await got(people, 2))[1]).subject).toBe('v8 was rejected by octocat');
});

it('takes the reply to a mail as the answer', async () => {
  const { example, people, service } = await started();
  const key = await variableOf(example, 'MAILGUN_SIGNING_KEY');
  const runId = await trigger(service, 'mailReply', { number: 'R-7', approver: 'ada@example.com' });
  const { replyTo } = said((await got(people, 1))[0]);
  await waiting(service, runId);
  const [timestamp, token] = [String(Math.floor(Date.now() / 1000)), randomBytes(25).toString('hex')];
  // According to Mailgun: https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/securing-webhooks
  const signature = createHmac('sha256', key)
    .update(timestamp + token)
    .digest('hex');
  const mail = new FormData();
  const fields = {
    recipient: String(replyTo),
    sender: 'ada@example.com',
    subject: 'Re: Pay invoice R-7?',
    timestamp,
    token,
    signature,
  };
  for (const [name, value] of Object.entries(fields)) mail.set(name, value);
  mail.set('stripped-text', 'Yes, please.\n');
  const sent = await fetch(`${service.url}/flows/api/webhook/mail-replies`, { method: 'POST', body: mail });
  expect([sent.status, await sent.json()]).toEqual([200, { answered: 1, deliveryId: expect.any(String) }]);
  expect(said((await got(people, 2))[1])).toEqual({ to: 'accounts@example.com', subject: 'Pay invoice R-7' });
});
