import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type CliResult, runCli } from '../e2e/cli.ts';
import {
  createWorkspace,
  eventually,
  FLOW_ID,
  GITHUB_SECRET,
  getJson,
  githubManifest,
  sendPush,
  startService,
} from '../e2e/service.ts';
import { useService } from '../e2e/used-service.ts';

const UNKNOWN_ID = '00000000-0000-4000-8000-000000000000';
const BROKEN_ID = '1c8f3055-7d2e-4a1f-8b62-4f1f9e2d3b21';
const ASKING_ID = '2d904166-8e3f-4b20-9c73-502a0f3e4c32';

/** Two of its steps fail; one of these failures is handled. */
const BROKEN = {
  id: BROKEN_ID,
  name: 'broken',
  version: '1',
  triggers: { byHand: { type: 'manual' } },
  steps: {
    tried: { type: 'Fail', inputs: { message: 'expected' } },
    instead: { type: 'NoOp', runAfter: { tried: ['Failed'] } },
    charge: { type: 'Fail', inputs: { message: 'no\u001b[2J\nmoney' } },
    ship: { type: 'Fail', inputs: { message: 'no boat' } },
  },
};
const ASKING = {
  id: ASKING_ID,
  name: 'asking',
  version: '1',
  triggers: { byHand: { type: 'manual' } },
  steps: { ask: { type: 'WaitForSignal', inputs: { signalName: 'decision' } } },
};

const ORDERED_ID = '3ea15277-9f40-4c31-8d84-613b1f4f5d43';
const ORDERED = {
  id: ORDERED_ID,
  name: 'ordered',
  version: '1',
  serialize: '"one"',
  serializeOnFailure: 'stop',
  triggers: { byHand: { type: 'manual' } },
  steps: { charge: { type: 'Fail', inputs: { message: 'no money' } } },
};

const { workspace, service, at, post } = useService(async ({ writeManifest }) => {
  const inputs = { webhookEnforcementMode: 'Enforce' };
  await writeManifest('push.json', githubManifest({ inputs, steps: { first: { type: 'NoOp' } } }));
  await writeManifest('broken.json', BROKEN);
  await writeManifest('asking.json', ASKING);
  await writeManifest('ordered.json', ORDERED);
});

const sluice = (...args: string[]): Promise<CliResult> => runCli(workspace, [...args, '--to', service.url]);

async function deliver(key = GITHUB_SECRET): Promise<{ status: number; deliveryId: string; runId: string }> {
  const response = await sendPush(service, JSON.stringify({ at: randomUUID() }), { key });
  const { runId = '' } = (await response.json()) as { runId?: string };
  return { status: response.status, deliveryId: response.headers.get('sluice-delivery') ?? '', runId };
}

/** Starts a run by hand; returns its id once it has this status and has reached its steps. */
async function startRun(flowId: string, wanted: string): Promise<string> {
  const { runId } = (await post<{ runId: string }>(`flows/${flowId}/trigger`)).body;
  await eventually(
    () => getJson<{ status: string; waitingFor: object[] }>(at(`runs/${runId}`)),
    ({ status, waitingFor }) => status === wanted && (wanted !== 'Running' || waitingFor.length > 0),
  );
  return runId;
}

describe('the list of deliveries', () => {
  it('shows what became of each, the newest first, and takes the filters of the API', async () => {
    const accepted = await deliver();
    const refused = await deliver('of someone else');
    const { code, stdout } = await sluice('deliveries', '--flow', 'push', '--since', '1h');
    expect(code).toBe(0);
    const lines = stdout.split('\n');
    expect(lines[0]).toMatch(/^DELIVERY +RECEIVED +CODE +FLOW +RESULT$/);
    expect(lines[1]).toMatch(new RegExp(`^${refused.deliveryId}  \\S+Z  401   push  refused: signature_mismatch$`));
    expect(lines[2]).toMatch(new RegExp(`^${accepted.deliveryId}  \\S+Z  200   push  accepted$`));
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(100);

    const listed = await sluice('deliveries', '--reason', 'signature_mismatch', '--take', '1', '--json');
    expect(JSON.parse(listed.stdout)).toMatchObject([{ id: refused.deliveryId, rejected: true }]);
    expect((await sluice('deliveries', '--held')).stdout).toBe('Nothing.\n');
  });

  it('ends with 2 where the API refuses a filter, and names it', async () => {
    const refused = await sluice('deliveries', '--reason', 'unlucky');
    expect(refused).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('reason: "unlucky" is not') });
    expect(await sluice('deliveries', '--flow', 'nobody')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('There is no flow "nobody"'),
    });
    expect(await sluice('runs', '--since', 'soon')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("option '--since <time>' argument 'soon' is invalid"),
    });
  });
});

describe('the list of runs', () => {
  it('says where a run failed and what one waits for, and no text of a flow steers the terminal', async () => {
    const failed = await startRun(BROKEN_ID, 'Failed');
    const waiting = await startRun(ASKING_ID, 'Running');
    const { stdout } = await sluice('runs', '--since', '1h', '--take', '2');
    const lines = stdout.split('\n');
    expect(lines[0]).toMatch(/^RUN +STARTED +STATUS +FLOW +WHY$/);
    expect(lines[1]).toMatch(new RegExp(`^${waiting}  \\S+Z  Running +asking  ask waits for the signal decision$`));
    expect(lines[2]).toMatch(new RegExp(`^${failed}  \\S+Z  Failed +broken  no.u001b.*\\(charge\\)$`));
    expect(stdout).not.toContain('\u001b');
    const one = await sluice('runs', '--status', 'failed', '--flow', BROKEN_ID, '--json');
    expect(JSON.parse(one.stdout)).toMatchObject([{ id: failed, flowName: 'broken' }]);
  });

  it('takes what runs failed by as filters, and counts by it', async () => {
    const failed = await startRun(BROKEN_ID, 'Failed');
    const listed = await sluice(
      'runs',
      '--step',
      'ship',
      '--code',
      'failed_on_purpose',
      '--error',
      'NO boat',
      '--json',
    );
    expect(JSON.parse(listed.stdout)).toContainEqual(expect.objectContaining({ id: failed }));
    expect((await sluice('runs', '--step', 'ship', '--error', 'money')).stdout).toBe('Nothing.\n');
    expect((await sluice('runs', '--host', 'api.example.com')).stdout).toBe('Nothing.\n');
    const { stdout } = await sluice('runs', '--flow', 'broken', '--group');
    const [head, ...rows] = stdout.trimEnd().split('\n');
    expect(head).toMatch(/^RUNS +TREND +FIRST +LAST +FLOW +STEP +CODE +HOST +ERROR$/);
    expect(rows).toHaveLength(3);
    expect(stdout).toMatch(/^\d+ +\S+ +\S+Z +\S+Z +broken +ship +failed_on_purpose +- +no boat$/m);
    const plan = await sluice('retry', '--step', 'instead');
    expect(plan).toMatchObject({ code: 0, stdout: '0 runs match; retry is for 0\n' });
  });

  it('says that there is more than it shows', async () => {
    const few = await sluice('runs', '--take', '1');
    expect(few).toMatchObject({ code: 0, stderr: expect.stringContaining('--take shows more') });
  });
});

describe('why', () => {
  it('a refused delivery: its answer, what each gate found, and how to accept it', async () => {
    const { deliveryId } = await deliver('of someone else');
    const { code, stdout } = await sluice('why', deliveryId);
    expect(code).toBe(0);
    expect(stdout).toMatch(new RegExp(`^delivery ${deliveryId}, received \\S+Z from 127.0.0.1, mode Enforce\n`));
    expect(stdout).toContain('answered 401, refused: signature_mismatch\n');
    expect(stdout).toMatch(/^GATE +OUTCOME +REASON +DETAIL\n/m);
    expect(stdout).toMatch(/^signature +failed +signature_mismatch/m);
    expect(stdout).toContain(`\nto accept it: sluice redeliver ${deliveryId}, with --force`);
    expect(JSON.parse((await sluice('why', deliveryId, '--json')).stdout)).toMatchObject({
      id: deliveryId,
      gateResults: expect.any(Array),
      redelivery: { possible: true },
    });
  });

  it('an accepted delivery: the run that it became', async () => {
    const { deliveryId, runId } = await deliver();
    const { code, stdout } = await sluice('why', deliveryId);
    expect(code).toBe(0);
    expect(stdout).toContain('answered 200, accepted\n');
    expect(stdout).toMatch(new RegExp(`^run ${runId} of push, version 1, revision 1\n`, 'm'));
    expect(stdout).toMatch(new RegExp(`^\\w+: started \\S+ by github, delivery ${deliveryId}`, 'm'));
  });

  it('a failed run: each step that failed and its error', async () => {
    const runId = await startRun(BROKEN_ID, 'Failed');
    const { code, stdout } = await sluice('why', runId);
    expect(code).toBe(0);
    expect(stdout).toContain('step tried failed with failed_on_purpose: expected (a later step handled it)\n');
    expect(stdout).toContain('step charge failed with failed_on_purpose: no\\u001b[2J\\u000amoney\n');
    expect(stdout).toContain('step ship failed with failed_on_purpose: no boat\n');
    expect(stdout).toContain(`to retry what failed: sluice retry ${runId}\n`);
  });

  it('a run in flight: what it waits for', async () => {
    const runId = await startRun(ASKING_ID, 'Running');
    expect((await sluice('why', runId)).stdout).toContain('step ask waits for the signal decision\n');
  });

  it('nothing that there is: 2', async () => {
    const unknown = await sluice('why', UNKNOWN_ID);
    expect(unknown).toMatchObject({
      code: 2,
      stdout: '',
      stderr: `There is no delivery and no run with the id ${UNKNOWN_ID}\n`,
    });
    expect(await sluice('why', 'push')).toMatchObject({ code: 2, stderr: expect.stringContaining('"push" is not') });
  });
});

describe('a command to runs that are named', () => {
  it('retries every step that made a run fail, and says which are due again', async () => {
    const runId = await startRun(BROKEN_ID, 'Failed');
    const { code, stdout } = await sluice('retry', runId, '--reason', 'the bank is back');
    expect({ code, stdout }).toEqual({ code: 0, stdout: `${runId}  Due again: charge; Due again: ship\n` });
    const said = await sluice('activity', '--target', runId, '--json');
    expect(JSON.parse(said.stdout)).toMatchObject([
      { action: 'retryStep', reason: 'the bank is back' },
      { action: 'retryStep', reason: 'the bank is back' },
    ]);
  });

  it('ends with 1 where the service refuses it, having done it to the others, and with 2 where there is no run', async () => {
    const runId = await startRun(ASKING_ID, 'Running');
    const early = await sluice('retry', runId);
    expect(early.code).toBe(1);
    expect(early.stdout).toBe(`${runId}  not done: The run is Running; only a run that failed can be retried\n`);

    expect(await sluice('cancel', runId, '--reason', 'a typo')).toMatchObject({
      code: 0,
      stdout: `${runId}  The run is cancelled\n`,
    });
    expect((await sluice('why', runId)).stdout).toContain('cancelled: a typo\n');
    const other = await startRun(ASKING_ID, 'Running');
    const again = await sluice('cancel', runId, other, '--json');
    expect(again.code).toBe(1);
    expect(JSON.parse(again.stdout)).toEqual([
      { id: runId, outcome: 'refused', message: 'The run has ended as Cancelled' },
      { id: other, outcome: 'done', message: 'The run is cancelled' },
    ]);
    expect(await sluice('cancel', UNKNOWN_ID)).toMatchObject({
      code: 2,
      stdout: `${UNKNOWN_ID}  There is no run with the id ${UNKNOWN_ID}\n`,
    });
  });

  it('lets the next run of a key start that one holds, once', async () => {
    const first = await startRun(ORDERED_ID, 'Failed');
    await startRun(ORDERED_ID, 'Running');
    const args = ['release-order', first, first, '--reason', 'paid by hand'];
    const { code, stdout } = await sluice(...args);
    expect({ code, stdout }).toEqual({
      code: 1,
      stdout:
        `${first}  The next run of the key starts\n` +
        `${first}  not done: The run holds no key: no other run waits because it failed\n`,
    });
    const said = await sluice('activity', '--target', first, '--json');
    expect(JSON.parse(said.stdout)).toMatchObject([
      { action: 'releaseOrder', outcome: 'refused' },
      { action: 'releaseOrder', reason: 'paid by hand', outcome: 'done' },
    ]);
    expect((await sluice('release-order', UNKNOWN_ID, '--json')).code).toBe(2);
    expect((await sluice('release-order')).code).toBe(2);
  });

  it('ends with 2 where it is told neither which runs nor a filter, or both', async () => {
    for (const args of [['retry'], ['cancel', UNKNOWN_ID, '--flow', 'asking'], ['cancel', 'asking']]) {
      expect(await sluice(...args)).toMatchObject({ code: 2, stdout: '' });
    }
  });
});

describe('a signal', () => {
  it('lets the step that waits for it go on, with its body', async () => {
    const runId = await startRun(ASKING_ID, 'Running');
    const told = await sluice('signal', runId, 'decision', '{"approved": true}', '--reason', 'looks good');
    expect(told).toMatchObject({ code: 0, stdout: 'step ask has it and goes on\n' });
    const { output } = await eventually(
      () => getJson<{ status: string; output: unknown }>(at(`runs/${runId}/steps/ask`)),
      ({ status }) => status === 'Succeeded',
    );
    expect(output).toEqual({ approved: true });
    const said = await sluice('activity', '--target', runId, '--json');
    expect(JSON.parse(said.stdout)).toMatchObject([{ reason: 'looks good' }]);
  });

  it('ends with 1 if the run ended, and with 2 for a name or a run that there is not, or what is not JSON', async () => {
    const runId = await startRun(ASKING_ID, 'Running');
    expect(await sluice('signal', runId, 'opinion')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('No step of the run waits for a signal "opinion"'),
    });
    expect(await sluice('signal', UNKNOWN_ID, 'decision')).toMatchObject({ code: 2, stdout: '' });
    expect(await sluice('signal', 'asking', 'decision')).toMatchObject({ code: 2, stderr: '"asking" is not an id\n' });
    expect(await sluice('signal', runId, 'decision', 'approved')).toMatchObject({
      code: 2,
      stderr: '"approved" is not JSON; quote it for the shell\n',
    });
    await sluice('cancel', runId);
    expect(await sluice('signal', runId, 'decision')).toMatchObject({
      code: 1,
      stderr: 'The run has ended as Cancelled\n',
    });
  });
});

describe('a command to all runs that match', () => {
  it('says what it would do, and does that with --yes', async () => {
    const runId = await startRun(ASKING_ID, 'Running');
    const asked = ['cancel', '--flow', 'asking', '--search', runId, '--since', '1h'];
    const planned = await sluice(...asked);
    expect(planned).toMatchObject({ code: 1, stderr: 'Nothing was done; --yes does it\n' });
    expect(planned.stdout).toMatch(/^1 run matches; cancel is for 1\nRUN +STARTED/);
    expect(planned.stdout).toContain(`${runId}  `);
    expect(await getJson(at(`runs/${runId}`))).toMatchObject({ status: 'Running' });

    const done = await sluice(...asked, '--yes', '--reason', 'ordered twice');
    expect(done).toMatchObject({ code: 0, stdout: expect.stringMatching(/\ndone: 1 of 1\n$/) });
    expect(await getJson(at(`runs/${runId}`))).toMatchObject({ status: 'Cancelled' });
    expect(await sluice(...asked, '--yes')).toMatchObject({ code: 0, stdout: '0 runs match; cancel is for 0\n' });
  });

  it('says which it leaves out, and ends with 1', async () => {
    const runId = await startRun(BROKEN_ID, 'Failed');
    const left = await sluice('cancel', '--status', 'Failed', '--search', runId, '--yes');
    expect(left.code).toBe(1);
    expect(left.stdout).toContain(`left out: 1, such as ${runId}: The run has ended\n`);
  });
});

describe('a redelivery', () => {
  it('accepts what passes or is forced, and says what else it needs', async () => {
    const { deliveryId } = await deliver('of someone else');
    const refused = await sluice('redeliver', deliveryId);
    expect(refused).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(`^${deliveryId}  not done: signature_mismatch: `),
    });
    const forced = await sluice('redeliver', deliveryId, '--force', '--reason', 'checked by hand');
    expect(forced).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(`^${deliveryId}  .*; its run is [0-9a-f-]+\n$`),
    });
    expect((await sluice('why', deliveryId)).stdout).toMatch(/^redelivered since, as [0-9a-f-]+$/m);
    expect((await sluice('redeliver', deliveryId, UNKNOWN_ID)).code).toBe(2);
  });

  it('of a delivery that was accepted, when it arrived or since, is done already', async () => {
    const { deliveryId: accepted } = await deliver();
    const { deliveryId: refused } = await deliver('of someone else');
    await sluice('redeliver', refused, '--force');
    const again = await sluice('redeliver', accepted, refused);
    expect(again.code).toBe(0);
    expect(again.stdout).toMatch(new RegExp(`^${accepted}  the delivery was accepted .*; its run is [0-9a-f-]+$`, 'm'));
    expect(again.stdout).toMatch(new RegExp(`^${refused}  it was already redelivered; its run is [0-9a-f-]+$`, 'm'));
  });
});

describe('a redelivery of all that match', () => {
  it('says what would be accepted, and accepts it with --yes', async () => {
    await sluice('disable', 'push', '--no-hold');
    const { status, deliveryId } = await deliver();
    expect(status).toBe(403);
    await sluice('enable', 'push');
    const asked = ['redeliver', '--flow', 'push', '--refused-for', 'flow_disabled', '--since', '1h'];
    const planned = await sluice(...asked);
    expect(planned).toMatchObject({ code: 1, stderr: 'Nothing was done; --yes does it\n' });
    expect(planned.stdout).toMatch(new RegExp(`^DELIVERY +OUTCOME +WHY\n${deliveryId}  would be accepted  `));
    const done = await sluice(...asked, '--yes', '--reason', 'it was closed by mistake');
    expect(done.code).toBe(0);
    expect(done.stdout).toMatch(new RegExp(`^${deliveryId}  accepted  .*; its run is [0-9a-f-]+$`, 'm'));
    expect(await sluice(...asked, '--yes')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('accepted before'),
    });
    const said = await sluice('activity', '--action', 'redeliverDeliveries', '--json');
    expect(JSON.parse(said.stdout)).toMatchObject([{ reason: 'it was closed by mistake' }]);
  });

  it('leaves those refused that their gates refuse, and ends with 1', async () => {
    await deliver('of someone else');
    const left = await sluice('redeliver', '--refused-for', 'signature_mismatch', '--limit', '1', '--yes');
    expect(left).toMatchObject({ code: 1, stdout: expect.stringContaining('  refused  signature_mismatch: ') });
    expect(await sluice('redeliver', '--flow', 'push', '--force')).toMatchObject({ code: 2, stdout: '' });
  });
});

describe('a flow', () => {
  it('is held, and enabled again: its deliveries are accepted meanwhile, and their runs start', async () => {
    const held = await sluice('hold', 'push', '--reason', 'the shop is being moved');
    expect(held).toMatchObject({ code: 0, stdout: `push (${FLOW_ID}) is disabled; its deliveries are held\n` });
    const { status, deliveryId } = await deliver();
    expect(status).toBe(200);
    expect((await sluice('deliveries', '--held')).stdout).toMatch(new RegExp(`^${deliveryId} .* push  held$`, 'm'));
    expect((await sluice('why', deliveryId)).stdout).toContain('answered 200, held\n');

    const enabled = await sluice('enable', 'push');
    expect(enabled).toMatchObject({
      code: 0,
      stdout: `push (${FLOW_ID}) is enabled; the runs of 1 held deliveries start first\n`,
    });
    const said = await sluice('activity', '--target', FLOW_ID, '--action', 'disableFlow', '--take', '1', '--json');
    expect(JSON.parse(said.stdout)).toMatchObject([{ reason: 'the shop is being moved' }]);
  });

  it('is disabled, and refuses deliveries meanwhile', async () => {
    const disabled = await sluice('disable', FLOW_ID, '--no-hold', '--json');
    expect(disabled.code).toBe(0);
    expect(JSON.parse(disabled.stdout)).toMatchObject({ isEnabled: false, triggers: [{ holdsDeliveries: false }] });
    expect((await deliver()).status).toBe(403);
    expect((await sluice('enable', FLOW_ID)).code).toBe(0);
    expect(await sluice('enable', 'nobody')).toMatchObject({ code: 2, stdout: '' });
  });

  it('goes back to an earlier revision, with the findings of a deploy', async () => {
    const next = { ...BROKEN, version: '2', steps: { ...BROKEN.steps, instead: { type: 'NoOp' } } };
    const put = await fetch(at(`flows/${BROKEN_ID}`), {
      method: 'PUT',
      body: JSON.stringify(next),
    });
    expect(put.status).toBe(200);
    const inForce = await sluice('restore', 'broken', '2');
    expect(inForce).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('Revision 2 is in force') });

    const planned = await sluice('restore', 'broken', '1', '--dry-run');
    expect(planned).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(`broken (${BROKEN_ID}), version 2 -> 1`),
    });
    const restored = await sluice('restore', 'broken', '1', '--reason', 'it was better');
    expect(restored).toMatchObject({ code: 0, stdout: expect.stringMatching(/\n1 flow: 1 updated\.\n$/) });
    const [revision] = await getJson<object[]>(at(`flows/${BROKEN_ID}/revisions`));
    expect(revision).toMatchObject({ revision: 3, version: '1', reason: 'it was better' });
    expect((await sluice('restore', 'broken', '9')).code).toBe(2);
  });

  it('stays as it is where the deploy of an earlier revision is refused', async () => {
    const inputs = { webhookEnforcementMode: 'Enforce', webhookIpAllowList: ['192.0.2.1'] };
    const stricter = githubManifest({ inputs, steps: { first: { type: 'NoOp' } } });
    const put = await fetch(at(`flows/${FLOW_ID}`), {
      method: 'PUT',
      body: JSON.stringify(stricter),
    });
    expect(put.status).toBe(200);
    const refused = await sluice('restore', 'push', '1');
    expect(refused.code).toBe(2);
    expect(refused.stdout).toContain('Refused: ');
    expect(refused.stdout).toContain('Access to ');
    expect((await sluice('restore', 'push', '1', '--allow', 'access')).code).toBe(0);
  });
});

/** The answers of a service whose store is away: those it can give without it, and 503. */
const AWAY: Readonly<Record<string, readonly [status: number, body: object]>> = {
  '/health/ready': [503, { statusCode: 503, message: 'The store is away', reason: 'store_unavailable' }],
  '/flows/api/attention': [200, [{ kind: 'store_unavailable', severity: 'error', message: 'The store is away' }]],
};

describe('the status', () => {
  it('has what needs attention, what came and ran, and the flows that are closed, and is 1 if there is an error', async () => {
    await deliver();
    await startRun(BROKEN_ID, 'Failed');
    await sluice('hold', 'asking');
    const { code, stdout } = await sluice('status', '--since', '2h');
    await sluice('enable', 'asking');
    expect(code).toBe(1);
    expect(stdout).toMatch(
      /^ready\n\nSEVERITY +KIND +MESSAGE\nerror +failed_runs +\d+ runs? of broken failed in the last 24 hours/,
    );
    expect(stdout).toMatch(/^deliveries from \S+Z to \S+Z: \d+ accepted, \d+ rejected$/m);
    expect(stdout).toMatch(/^runs from \S+Z to \S+Z: \d+ succeeded, \d+ failed, \d+ cancelled, \d+ running$/m);
    expect(stdout).toMatch(/^books: (\d+) accepted = \1 runs?; 0 unaccounted$/m);
    expect(stdout).toMatch(new RegExp(`^${ASKING_ID} +disabled +0 +asking$`, 'm'));
  });

  it.each(['1h', '7h', '60d'])('counts what came and ran since %s', async (since) => {
    const { stdout } = await sluice('status', '--since', since, '--json');
    const { deliveries, runs } = JSON.parse(stdout);
    expect(deliveries.counts.accepted).toBeGreaterThan(0);
    expect(runs.counts.failed).toBeGreaterThan(0);
  });

  it('is 0 where all is well, 1 where the store is away, and 2 where nobody answers', async () => {
    const quiet = await createWorkspace();
    const well = await startService(quiet);
    onTestFinished(async () => void (await well.stop('SIGTERM')));
    expect(await runCli(quiet, ['status', '--to', well.url])).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^ready\n\nnothing needs attention\n\ndeliveries /),
    });

    const server = createServer((request, response) => {
      const [status, body] = AWAY[request.url ?? ''] ?? [503, { statusCode: 503, message: 'away' }];
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    });
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    onTestFinished(() => void server.close());
    const away = await runCli(quiet, ['status', '--to', `http://127.0.0.1:${(server.address() as AddressInfo).port}`]);
    expect(away.code).toBe(1);
    expect(away.stdout).toContain('not ready: The store is away\n');
    expect(away.stdout).toContain('deliveries: not known\n');
    expect(away.stdout).toContain('books: not known\n');
    expect(await runCli(quiet, ['status', '--to', 'http://127.0.0.1:1'])).toMatchObject({ code: 2, stdout: '' });
  });
});
