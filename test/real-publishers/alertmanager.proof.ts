// biome-ignore-all lint/suspicious/noTemplateCurlyInString: manifests have placeholders in plain strings.
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createWorkspace, eventually, FLOW_ID, type Service, startService, type Workspace } from '../e2e/service.ts';
import { deliveriesOf, deliveryThat, endedRun, type Publisher, startPublisher } from './publisher.ts';

/* Debian's Alertmanager, configured as on the publisher's page, sends to the built service. */

const PLACES = ['/usr/bin/prometheus-alertmanager', '/usr/local/bin/alertmanager'];
// A named path must exist: a run that relies on it must not skip these tests because of a wrong path.
const program = process.env.ALERTMANAGER_PATH ?? PLACES.find((path) => existsSync(path));

const KEY = 'a key that Alertmanager shows';

const FLOW = {
  id: FLOW_ID,
  name: 'alerts',
  version: '1',
  triggers: {
    alerts: {
      type: 'webhook',
      inputs: {
        webhookSlug: 'alerts',
        webhookSignatureScheme: 'PrometheusAlertmanager',
        webhookHmacKey: KEY,
        webhookReplayToleranceSeconds: 300,
        webhookDuplicateResponse: 'acknowledge',
        webhookEnforcementMode: 'Enforce',
        webhookWhen: "body.commonLabels.severity == 'page'",
      },
      searchKeys: { alert: 'body.groupLabels.alertname' },
    },
  },
  steps: {
    each: {
      type: 'ForEach',
      forEach: '${trigger.body.alerts}',
      steps: { tell: { type: 'LogMessage', inputs: { message: '${loop.item.labels.instance} ${loop.item.status}' } } },
    },
    what: { type: 'Transform', inputs: { value: '${trigger.body.status}: ${trigger.body.commonAnnotations.summary}' } },
  },
};

/** Alerts of the team "stranger" go to a receiver with another key. */
const configuration = (url: string) => `
route:
  receiver: known
  group_by: [alertname]
  group_wait: 0s
  group_interval: 1s
  repeat_interval: 4h
  routes:
    - matchers: ['team="stranger"']
      receiver: stranger
receivers:
  - name: known
    webhook_configs:
      - url: ${url}/flows/api/webhook/alerts
        http_config: { authorization: { credentials: '${KEY}' } }
  - name: stranger
    webhook_configs:
      - url: ${url}/flows/api/webhook/alerts
        http_config: { authorization: { credentials: 'another key' } }
`;

let workspace: Workspace;
let service: Service;
let alertmanager: Publisher;

async function start(): Promise<void> {
  workspace = await createWorkspace();
  await workspace.writeManifest('alerts.json', FLOW);
  service = await startService(workspace);
  const folder = join(workspace.folder, 'alertmanager');
  await mkdir(folder);
  await writeFile(join(folder, 'alertmanager.yml'), configuration(service.url));
  const options = ['--web.listen-address=127.0.0.1:0', '--cluster.listen-address=', `--storage.path=${folder}`];
  alertmanager = await startPublisher(program ?? '', ['--config.file=alertmanager.yml', ...options], {
    cwd: folder,
    until: /msg="Listening on" address=(127\.0\.0\.1:\d+)/,
  });
}

/** Sends alerts as Prometheus does. */
async function alert(...alerts: { labels: object; endsAt?: Date }[]): Promise<void> {
  const answer = await fetch(`http://${alertmanager.found}/api/v2/alerts`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(
      alerts.map(({ labels, endsAt }) => ({
        labels,
        annotations: { summary: 'p99 above 2 s' },
        ...(endsAt !== undefined && { endsAt: endsAt.toISOString() }),
      })),
    ),
  });
  expect(answer.status).toBe(200);
}

const slow = (instance: string) => ({ labels: { alertname: 'Slow', severity: 'page', instance } });

const isThere = describe.skipIf(program === undefined);
isThere(`Alertmanager${program === undefined ? ' (not here; name one in ALERTMANAGER_PATH)' : ''}`, () => {
  beforeAll(start);
  afterAll(async () => {
    await alertmanager?.stop();
    await service?.stop('SIGTERM');
  });

  it('sends alerts that are verified, found by their search key, and looped over by their run', async () => {
    await alert(slow('web-1'), slow('web-2'));
    const [delivery] = await deliveriesOf(service, 1);
    expect(delivery).toMatchObject({
      statusCode: 200,
      reason: null,
      scheme: 'PrometheusAlertmanager',
      searchKeys: { alert: 'Slow' },
    });
    const run = await endedRun(service, delivery?.runId ?? null);
    expect(run.status).toBe('Succeeded');
    expect(run.triggerBody).toMatchObject({ status: 'firing', version: '4', groupLabels: { alertname: 'Slow' } });
    await eventually(
      async () => service.output(),
      (log) => log.includes('web-1 firing') && log.includes('web-2 firing'),
    );
  });

  it('sends that they are resolved, which starts another run', async () => {
    // Alertmanager uses the machine's clock.
    const endsAt = new Date();
    await alert({ ...slow('web-1'), endsAt }, { ...slow('web-2'), endsAt });
    const isResolved = ({ triggerBody }: { triggerBody: unknown }) =>
      (triggerBody as { status: string }).status === 'resolved';
    const runs = await eventually(
      async () => {
        const started = (await deliveriesOf(service, 2)).filter(({ runId }) => runId !== null);
        return Promise.all(started.map(({ runId }) => endedRun(service, runId)));
      },
      (all) => all.some(isResolved),
    );
    const what = { stepKey: 'what', output: 'resolved: p99 above 2 s' };
    expect(runs.find(isResolved)?.steps).toContainEqual(expect.objectContaining(what));
  });

  it('sends what the trigger filters: it is recorded and starts no run', async () => {
    await alert({ labels: { alertname: 'Untidy', severity: 'info' } });
    const delivery = await deliveryThat(service, ({ outcome }) => outcome === 'filtered');
    expect(delivery).toMatchObject({ statusCode: 200, runId: null });
  });

  it('with another key is refused, the refusal is recorded, and Alertmanager says so', async () => {
    await alert({ labels: { alertname: 'Stranger', severity: 'page', team: 'stranger' } });
    const delivery = await deliveryThat(service, ({ statusCode }) => statusCode === 401);
    expect(delivery).toMatchObject({ reason: 'signature_mismatch', runId: null });
    await eventually(
      async () => alertmanager.output(),
      (log) => log.includes('unexpected status code 401'),
    );
  });
});
