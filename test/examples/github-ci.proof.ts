import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { runCli } from '../e2e/cli.ts';
import { eventually } from '../e2e/service.ts';
import { deliver } from './deliver.ts';
import { copyExample, fakeService, serveExample, variableOf } from './example.ts';

interface Listed {
  readonly id: string;
  readonly status: string;
  readonly waitingFor: readonly { readonly for: string }[];
}

const STARTS_A_COMMAND = { seconds: 60, because: 'each question starts the command line' };

it('builds a push to main, and deploys only what somebody approves, however often the service dies meanwhile', async () => {
  const example = await copyExample('github-ci');
  const key = await variableOf(example, 'GITHUB_WEBHOOK_SECRET');
  const states = new Map<string, number>();
  const ci = await fakeService(await variableOf(example, 'CI_BUILDS_URL'), ({ method, path, body }) => {
    if (path === '/deploys') return { body: { deployed: true } };
    if (method === 'POST') return { body: { id: JSON.parse(body).commit } };
    const times = (states.get(path) ?? 0) + 1;
    states.set(path, times);
    return { body: { state: times < 3 ? 'running' : path.endsWith('bad') ? 'failed' : 'passed' } };
  });
  let service = await serveExample(example);
  const sluice = async (...args: string[]) => {
    const { code, stdout, stderr } = await runCli(example, args);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    return stdout;
  };
  const push = (after: string, ref = 'refs/heads/main', deleted = false) => {
    const body = JSON.stringify({ ref, after, deleted, repository: { full_name: 'octocat/hello' } });
    const headers = { 'x-github-event': 'push', 'x-github-delivery': randomUUID() };
    return deliver(service, { slug: 'github-ci', scheme: 'GitHub', key, body, headers });
  };
  const listed = async (runId: string): Promise<Listed | undefined> =>
    JSON.parse(await sluice('runs', '--since', '1h', '--json')).find(({ id }: Listed) => id === runId);
  const waitsForApproval = async (runId: string) =>
    eventually(
      async () => JSON.parse(await sluice('runs', '--waiting', 'signal', '--since', '1h', '--json')) as Listed[],
      (runs) => runs.some(({ id }) => id === runId),
      STARTS_A_COMMAND,
    );
  const endOf = async (runId: string) =>
    (
      await eventually(
        () => listed(runId),
        (run) => run?.status !== 'Running',
        STARTS_A_COMMAND,
      )
    )?.status;

  expect(await push('c0', 'refs/heads/topic')).toMatchObject({ status: 200, body: { filtered: true } });
  expect(await push('c0', 'refs/heads/main', true)).toMatchObject({ status: 200, body: { filtered: true } });

  const { runId } = (await push('good')).body;
  await waitsForApproval(runId);
  await service.stop('SIGKILL');
  service = await serveExample(example);
  await waitsForApproval(runId);
  await sluice('signal', runId, 'approval', '{"approved": true, "by": "ada"}', '--reason', 'the release is due');
  expect(await endOf(runId)).toBe('Succeeded');

  const unwanted = (await push('unwanted')).body.runId;
  await waitsForApproval(unwanted);
  await sluice('signal', unwanted, 'approval', '{"approved": false, "by": "ada"}');
  expect(await endOf(unwanted)).toBe('Succeeded');
  expect(await endOf((await push('bad')).body.runId)).toBe('Failed');

  const deploys = ci.asked.filter(({ path }) => path === '/deploys');
  expect(deploys.map(({ body }) => JSON.parse(body))).toEqual([{ build: 'good', approvedBy: 'ada' }]);
  const token = await variableOf(example, 'CI_TOKEN');
  expect(new Set(ci.asked.map(({ headers }) => headers.authorization))).toEqual(new Set([token]));
  expect(service.output()).not.toContain(token);
});
