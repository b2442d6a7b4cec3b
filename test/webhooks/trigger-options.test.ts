import { describe, expect, it } from 'vitest';
import type { SettingsInput } from '../../src/config/settings-schema.ts';
import type { WebhookInputs } from '../../src/manifest/webhook-inputs.ts';
import { sign } from '../oracles/octokit.ts';
import { type Gateway, type Sent, sharedGateways, startGateway } from '../publishers/gateway.ts';

const KEY = 'a key of enough bytes';
const GITHUB: WebhookInputs = { webhookSignatureScheme: 'GitHub', webhookHmacKey: KEY };

const open = sharedGateways();

/** A service for one test. */
async function start(triggers: Record<string, WebhookInputs>, settings: SettingsInput = {}): Promise<Gateway> {
  return startGateway({ triggers, settings });
}

async function push(body: string, id = 'id-1'): Promise<Sent> {
  const signature = await sign(KEY, body);
  return { headers: { 'x-hub-signature-256': signature, 'x-github-delivery': id }, body };
}

describe('webhookResponse', () => {
  const webhookResponse = { contentType: 'application/vnd.acme+json; charset=utf-8', body: '{"ok":true}' };

  it('is the answer to what is accepted, and to nothing else', async () => {
    const { send } = await open({ ...GITHUB, webhookResponse });
    const accepted = await send(await push('{}'));
    expect([accepted.status, accepted.text]).toEqual([200, webhookResponse.body]);
    expect(accepted.headers['content-type']).toBe(webhookResponse.contentType);
    const refused = await send({ body: '{}' });
    expect([refused.status, JSON.parse(refused.text).reason]).toEqual([401, 'signature_missing']);
  });

  it('is sent as plain text if it is XML, and the load says so', async () => {
    const xml = { contentType: 'application/xml', body: '<ok/>' };
    const gateway = await open({ ...GITHUB, webhookResponse: xml });
    const accepted = await gateway.send(await push('{}'));
    expect([accepted.headers['content-type'], accepted.text]).toEqual(['text/plain; charset=utf-8', '<ok/>']);
    expect(gateway.warnings.join()).toContain('is sent as text/plain; charset=utf-8, because browsers run scripts in');
  });

  it('goes before what the scheme’s publisher reads, and is the answer to an acknowledged duplicate too', async () => {
    const teams: WebhookInputs = {
      webhookSignatureScheme: 'MicrosoftTeams',
      webhookEnforcementMode: 'Off',
      webhookResponse,
    };
    const nonce: WebhookInputs = { webhookNonceHeader: 'X-GitHub-Delivery', webhookDuplicateResponse: 'acknowledge' };
    expect(await (await open(teams)).send({ body: '{}' })).toMatchObject({ status: 200, text: webhookResponse.body });
    const { send } = await open({ ...GITHUB, ...nonce, webhookResponse });
    for (const _ of ['first', 'again']) {
      expect(await send(await push('{}'))).toMatchObject({ status: 200, text: webhookResponse.body });
    }
  });
});

describe('webhookDuplicateResponse', () => {
  const NONCE = { ...GITHUB, webhookNonceHeader: 'X-GitHub-Delivery' };

  it('of acknowledge answers the same bytes with the first run’s id, and other bytes with 409', async () => {
    const gateway = await open({ ...NONCE, webhookDuplicateResponse: 'acknowledge' });
    const first = JSON.parse((await gateway.send(await push('{"a":1}'))).text);
    const again = await gateway.send(await push('{"a":1}'));
    const record = await gateway.latestDelivery();
    expect(again.status).toBe(200);
    expect(JSON.parse(again.text)).toEqual({ runId: first.runId, deliveryId: record.id, duplicate: true });
    expect(record).toMatchObject({ reason: 'nonce_replayed', rejected: false, runId: first.runId });
    const other = await gateway.send(await push('{"a":2}'));
    expect([other.status, JSON.parse(other.text).reason]).toEqual([409, 'nonce_replayed']);
    expect(await gateway.countRuns()).toBe(1);
  });

  it('of acknowledge compares what is kept of the bytes: the key in a body may be rotated in between', async () => {
    const before = 'the key before, which still counts';
    const hook: WebhookInputs = {
      webhookSignatureScheme: 'MicrosoftGraph',
      webhookHmacKey: KEY,
      webhookHmacKeyPrevious: before,
      webhookNonceHeader: 'X-Id',
      webhookDuplicateResponse: 'acknowledge',
    };
    const { send } = await open(hook);
    const statusOf = async (clientState: string, changeType: string) => {
      const body = JSON.stringify({ value: [{ clientState, changeType }] });
      return (await send({ headers: { 'x-id': 'id-1', 'content-type': 'application/json' }, body })).status;
    };
    expect(await statusOf(KEY, 'created')).toBe(200);
    expect(await statusOf(before, 'created')).toBe(200);
    expect(await statusOf(before, 'updated')).toBe(409);
  });

  it('of acknowledge counts a repetition as no refusal: not in figures, metrics or the log', async () => {
    const gateway = await start({ hook: { ...NONCE, webhookDuplicateResponse: 'acknowledge' } });
    for (const _ of ['first', 'again']) await gateway.deliver('hook', await push('{}'));
    expect(JSON.parse(await gateway.get('/flows/api/webhooks/stats'))).toMatchObject({ accepted: 2, rejected: 0 });
    expect(await gateway.get('/metrics')).not.toContain('nonce_replayed');
    expect(gateway.logged.join('')).not.toContain('WebhookReplayRejected');
  });

  it('is a conflict where nothing else is said', async () => {
    for (const inputs of [NONCE, { ...NONCE, webhookDuplicateResponse: 'conflict' } as const]) {
      const { send } = await open(inputs);
      expect((await send(await push('{}'))).status).toBe(200);
      expect((await send(await push('{}'))).status).toBe(409);
    }
  });

  it('lets no forgery in: a forged duplicate is 401', async () => {
    const { send } = await open({ ...NONCE, webhookDuplicateResponse: 'acknowledge' });
    const sent = await push('{}');
    await send(sent);
    const forged = { ...sent.headers, 'x-hub-signature-256': `sha256=${'0'.repeat(64)}` };
    expect((await send({ ...sent, headers: forged })).status).toBe(401);
  });
});

it('tells of conflicting key fields once for each flow, whatever is delivered', async () => {
  const both = { ...GITHUB, webhookSecret: 'an older one' };
  const gateway = await start({ a: both, b: { ...both, webhookSecretPrevious: 'x', webhookHmacKeyPrevious: 'y' } });
  for (const slug of ['a', 'b', 'a']) expect((await gateway.deliver(slug, await push('{}', slug))).status).toBe(200);
  const events = gateway.logged.filter((line) => line.includes('"eventId":4011,'));
  expect(events).toHaveLength(1);
  expect(events[0]).toContain('"eventName":"WebhookConflictingKeyFields"');
});

describe('a scheme', () => {
  it('skips the gate with a warning if the scheme is unknown, and is refused if manifests are read strictly', async () => {
    const hook = { ...GITHUB, webhookSignatureScheme: 'GitHubb' };
    const gateway = await start({ hook });
    expect(gateway.warnings).toContainEqual(
      expect.stringMatching(
        /^warning .*webhookSignatureScheme: "GitHubb" is not a known scheme: .*did you mean "GitHub"\?/,
      ),
    );
    expect(gateway.summary.join()).toContain('publishers/hook: unrecognised scheme "GitHubb"');
    expect((await gateway.deliver('hook', { body: '{}' })).status).toBe(200);
    await expect(start({ hook }, { strictManifests: true, refusedDeploys: 'fail' })).rejects.toThrow(
      '"GitHubb" is not a known scheme',
    );
  });

  it.each(['Twilio', 'GitHubLegacy'])(
    'with SHA-1 (%s) is told of and refuses all while the switch is off',
    async (scheme) => {
      const webhookPublicUrl = 'https://hooks.example.com/in';
      const hook = { webhookSignatureScheme: scheme, webhookHmacKey: KEY, webhookPublicUrl };
      const gateway = await open(hook, { allowLegacySha1: false });
      expect(gateway.warnings).toContainEqual(
        expect.stringContaining(`${scheme} signs with SHA-1, which is turned off`),
      );
      const headers = {
        'x-hub-signature': `sha1=${'0'.repeat(40)}`,
        'x-twilio-signature': 'AAAAAAAAAAAAAAAAAAAAAAAAAAA=',
      };
      const { status, text } = await gateway.send({ headers, body: '{}' });
      expect([status, JSON.parse(text).reason]).toEqual([401, 'sha1_not_allowed']);
      // It fails closed, so the manifest is not refused.
      await expect(open(hook, { allowLegacySha1: false, strictManifests: true })).resolves.toBeDefined();
    },
  );

  it('of Custom without a header is one mistake, told once', async () => {
    const hook = { ...GITHUB, webhookSignatureScheme: 'custom' };
    const strategy = { ...hook, webhookSignatureHeader: 'X-Sig', webhookSignedPayloadStrategy: 'Custom' } as const;
    const mistakes = await start({ hook, strategy }, { refusedDeploys: 'fail' }).catch((error: Error) =>
      error.message.split('\n').slice(1),
    );
    expect(mistakes).toEqual([
      expect.stringContaining('triggers.hook.inputs.webhookSignatureHeader: is required with scheme Custom'),
      expect.stringContaining('triggers.strategy.inputs.webhookCustomStrategyName: is required with strategy Custom'),
    ]);
  });

  it('is shown by its own name, however the manifest spells it', async () => {
    const hook = (webhookSignatureScheme: string) => ({
      webhookSignatureScheme,
      webhookHmacKey: `whsec_${Buffer.alloc(24, 7).toString('base64')}`,
    });
    const gateway = await start({ alias: hook('Svix'), capitals: hook('GITHUB'), unknown: hook('Nobody') });
    const [flow] = JSON.parse(await gateway.get('/flows/api/flows'));
    expect(flow.triggers.map((trigger: { key: string; scheme: string }) => [trigger.key, trigger.scheme])).toEqual([
      ['alias', 'StandardWebhooks'],
      ['capitals', 'GitHub'],
      ['unknown', null],
    ]);
    await gateway.deliver('alias', { body: '{}' });
    expect((await gateway.latestDelivery()).scheme).toBe('StandardWebhooks');
    expect(await gateway.get('/metrics')).toMatch(/^webhook_received_total\{.*scheme="StandardWebhooks"\} 1$/m);
  });
});
