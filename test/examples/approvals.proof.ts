import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { eventually, type Service } from '../e2e/service.ts';
import { deliver } from './deliver.ts';
import { type Asked, copyExample, type FakeService, fakeService, serveExample, variableOf } from './example.ts';

async function started() {
  const example = await copyExample('approvals');
  const people = await fakeService(await variableOf(example, 'MAIL_URL'), () => ({ body: {} }));
  return { example, people, service: await serveExample(example) };
}

const FLOWS = { slack: 'f1c0b7a4-6d29-4e35-8a17-3b5e9d2c6a01', mail: 'f1c0b7a4-6d29-4e35-8a17-3b5e9d2c6a03' };

async function trigger({ url }: Service, flow: keyof typeof FLOWS, body: object): Promise<void> {
  const sent = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  expect((await fetch(`${url}/flows/api/flows/${FLOWS[flow]}/trigger`, sent)).status).toBe(200);
}

const got = async ({ asked }: FakeService, count: number): Promise<readonly Asked[]> =>
  eventually(
    async () => asked,
    ({ length }) => length >= count,
  );

/** Opens the link of a message that offers this choice, sees it highlighted, and presses it. */
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
