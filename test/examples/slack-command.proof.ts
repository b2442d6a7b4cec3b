import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { eventually } from '../e2e/service.ts';
import { deliver } from './deliver.ts';
import { copyExample, fakeService, serveExample, variableOf } from './example.ts';

it('answers before the deploy has ended, and tells how it ended where the command was given', async () => {
  const example = await copyExample('slack-command');
  // A busy machine may take longer than Slack would wait; the point is that the answer does not wait for the deploy.
  const file = join(example.folder, 'manifests/command.json');
  const manifest = await readFile(file, 'utf8');
  await writeFile(file, manifest.replace('"withinSeconds": 2.5', '"withinSeconds": 25'));

  const key = await variableOf(example, 'SLACK_SIGNING_SECRET');
  const url = await variableOf(example, 'DEPLOY_URL');
  let end: (status: number) => void = () => {};
  const slack = await fakeService(url, async ({ path }) => {
    if (path !== '/deploys') return {};
    return { status: await new Promise<number>((ended) => (end = ended)), body: { version: 'v7' } };
  });
  const service = await serveExample(example);
  const command = (text: string, secret = key) => {
    const fields = { command: '/deploy', text, user_name: 'ada', response_url: new URL('/commands/1', url).href };
    const body = new URLSearchParams(fields).toString();
    const contentType = 'application/x-www-form-urlencoded';
    return deliver(service, { slug: 'slack-deploy', scheme: 'Slack', key: secret, body, contentType });
  };
  const told = () => slack.asked.filter(({ path }) => path === '/commands/1').map(({ body }) => JSON.parse(body).text);
  const isTold = (count: number) =>
    eventually(
      async () => told(),
      (texts) => texts.length >= count,
    );
  const isDeploying = (count: number) =>
    eventually(
      async () => slack.asked.filter(({ path }) => path === '/deploys'),
      (deploys) => deploys.length >= count,
    );

  expect(await command('staging')).toMatchObject({
    status: 200,
    body: { response_type: 'ephemeral', text: 'Deploying staging' },
  });
  await isDeploying(1);
  expect(told()).toEqual([]);
  end(200);
  await isTold(1);
  expect((await command('live')).body.text).toBe('Deploying live');
  await isDeploying(2);
  end(500);
  await isTold(2);
  expect(told()).toEqual(['v7 is deployed', 'live was not deployed: unexpected_status']);

  expect((await command('')).body.text).toBe('Deploy what?');
  expect(await command('staging', 'a guess of someone')).toMatchObject({ status: 401 });
  await isDeploying(2);
});
