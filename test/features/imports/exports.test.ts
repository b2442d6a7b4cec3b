import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { IMPORTED_KINDS, readImport } from '../../../src/features/imports/command.ts';
import { NotReadable } from '../../../src/features/imports/imported.ts';

const SECRET = 'a value that nobody may see';
const read = async (kind: (typeof IMPORTED_KINDS)[number], value: unknown) => readImport(kind, JSON.stringify(value));

async function only(kind: (typeof IMPORTED_KINDS)[number], value: unknown) {
  const imported = await read(kind, value);
  expect(JSON.stringify(imported)).not.toContain(SECRET);
  expect(imported.triggers).toHaveLength(1);
  expect(imported.leftOut).toEqual([]);
  const [{ verifiedBy, ...trigger } = { verifiedBy: undefined }] = imported.triggers;
  return { ...trigger, verifiedBy };
}

async function whyNone(kind: (typeof IMPORTED_KINDS)[number], value: unknown): Promise<string> {
  const { triggers, leftOut } = await read(kind, value);
  expect(triggers).toEqual([]);
  expect(leftOut).toHaveLength(1);
  expect(leftOut.join()).not.toContain(SECRET);
  return leftOut.join();
}

describe('a source of Hookdeck', () => {
  const source = (more: object) => ({ id: 'src_1', name: 'orders', url: 'https://hkdk.events/x', ...more });
  const hmac = { algorithm: 'sha512', encoding: 'base64', header_key: 'x-mac', webhook_secret_key: SECRET };

  it.each([
    ['its type', source({ type: 'STRIPE', config: { auth: { webhook_secret_key: SECRET } } }), { scheme: 'Stripe' }],
    [
      'its former verification',
      source({ verification: { type: 'github', configs: { webhook_secret_key: SECRET } } }),
      { scheme: 'GitHub' },
    ],
    ['another name', source({ type: 'AWS_SNS', config: {} }), { scheme: 'AmazonSns' }],
    [
      'an HMAC of its own',
      source({ type: 'WEBHOOK', config: { auth_type: 'HMAC', auth: hmac } }),
      {
        inputs: {
          webhookSignatureScheme: 'Custom',
          webhookSignatureHeader: 'x-mac',
          webhookSignatureAlgorithm: 'sha512',
          webhookSignatureEncoding: 'base64',
        },
      },
    ],
    [
      'a key in a header',
      source({ type: 'HTTP', config: { auth_type: 'API_KEY', auth: { api_key: SECRET, header_key: 'x-key' } } }),
      { inputs: { webhookSignatureScheme: 'Token', webhookSignatureHeader: 'x-key' } },
    ],
    [
      'user and password',
      source({ verification: { type: 'BASIC_AUTH', configs: { username: 'u', password: SECRET } } }),
      { inputs: { webhookSignatureScheme: 'Basic' } },
    ],
    ['nothing', source({ type: 'HTTP', config: {} }), undefined],
  ])('is verified by %s', async (_, given, verifiedBy) => {
    expect((await only('hookdeck', { models: [given] })).verifiedBy).toEqual(verifiedBy);
  });

  it.each([
    [
      'an unknown publisher',
      { type: 'AKENEO', config: { auth: { webhook_secret_key: SECRET } } },
      'no scheme for "AKENEO"',
    ],
    ['MD5', { type: 'WEBHOOK', config: { auth_type: 'HMAC', auth: { ...hmac, algorithm: 'md5' } } }, 'MD5'],
    ['an HMAC without its fields', { type: 'WEBHOOK', config: { auth_type: 'HMAC' } }, 'include=config.auth'],
    ['a key without its header', { type: 'WEBHOOK', config: { auth_type: 'API_KEY' } }, 'which header'],
    [
      'verification that is not in the file',
      { type: 'WEBHOOK', authenticated: true, config: {} },
      'include=config.auth',
    ],
    [
      'verification of an unknown kind',
      { type: 'WEBHOOK', config: { auth: { something: SECRET } } },
      'include=config.auth',
    ],
    ['verification of another form', { verification: 'stripe' }, 'include=config.auth'],
    ['a config that cannot be read', { type: 'HTTP', config: '{' }, 'include=config.auth'],
    ['values that are masked', { type: 'HTTP', config: { auth: '***' } }, 'include=config.auth'],
    ['a type of another form', { type: 'HTTP', config: { auth_type: 7 } }, 'include=config.auth'],
    ['a source that is off', { type: 'STRIPE', disabled_at: '2026-01-01' }, 'disabled'],
    ['a source without POST', { type: 'STRIPE', config: { allowed_http_methods: ['GET'] } }, 'no POST'],
  ])('becomes no trigger, rather than an open one: %s', async (_, more, why) => {
    expect(await whyNone('hookdeck', source(more))).toContain(why);
  });

  it('is found once in its connections, of which the rest is told', async () => {
    const connection = (name: string) => ({
      name,
      source: source({ type: 'GITHUB' }),
      destination: { id: 'des_1', name: 'mine', type: 'HTTP', config: { url: `https://user:${SECRET}@example.com` } },
      rules: [{ type: 'filter', body: { a: SECRET } }],
    });
    const { notTaken } = await only('hookdeck', { models: [connection('one'), connection('two')] });
    expect(notTaken).toEqual([
      'rules of the connection "one": "filter"',
      'the destination of the connection "one": --forward sends deliveries on to a URL',
      'rules of the connection "two": "filter"',
      'the destination of the connection "two": --forward sends deliveries on to a URL',
    ]);
  });

  it('is read from the state of Terraform, with its auth beside it', async () => {
    const { verifiedBy, key } = await only('hookdeck', {
      values: {
        root_module: {
          resources: [
            { type: 'hookdeck_source', values: { id: 'src_1', name: 'orders', type: 'HTTP', config: '{}' } },
            {
              type: 'hookdeck_source_auth',
              values: { source_id: 'src_1', auth_type: 'BASIC_AUTH', auth: `{"username":"u","password":"${SECRET}"}` },
            },
          ],
        },
      },
    });
    expect(verifiedBy).toEqual({ inputs: { webhookSignatureScheme: 'Basic' } });
    expect(key).toEqual({ at: 'auth.username, a colon and auth.password' });
  });
});

describe('the auth of Terraform beside a source', () => {
  const state = (source: object, auth: object) => ({
    resources: [
      { type: 'hookdeck_gateway_source', instances: [{ attributes: { id: 'src_1', name: 'orders', ...source } }] },
      { type: 'hookdeck_gateway_source_auth', instances: [{ attributes: { source_id: 'src_1', ...auth } }] },
    ],
  });

  it('is that of the type of the source', async () => {
    const auth = `{"webhook_secret_key":"${SECRET}"}`;
    expect(await only('hookdeck', state({ type: 'STRIPE' }, { auth }))).toMatchObject({
      verifiedBy: { scheme: 'Stripe' },
    });
  });

  it.each([
    ['that cannot be read', { auth: '(sensitive)' }],
    ['that is not there', { auth: null }],
    ['of a kind that is not told', { auth: `{"x":"${SECRET}"}` }],
  ])('opens no source: one %s', async (_, auth) => {
    expect(await whyNone('hookdeck', state({ type: 'HTTP', config: '{}' }, auth))).toContain('include=config.auth');
  });
});

describe('a source of Svix Ingest', () => {
  it.each([
    ['github', { scheme: 'GitHub' }],
    ['clerk', { scheme: 'StandardWebhooks' }],
    ['beehiiv', { scheme: 'StandardWebhooks' }],
    ['openAi', { scheme: 'StandardWebhooks' }],
    ['generic-webhook', undefined],
    ['genericWebhook', undefined],
  ])('of type %s', async (type, verifiedBy) => {
    expect((await only('svix', { data: [{ name: 'a', type, config: { secret: SECRET } }] })).verifiedBy).toEqual(
      verifiedBy,
    );
  });

  it('verifies though the export has no secret', async () => {
    expect(await only('svix', { name: 'a', type: 'github', config: {} })).toMatchObject({
      verifiedBy: { scheme: 'GitHub' },
      key: {},
    });
  });

  it.each([
    ['cron', 'schedule'],
    ['vapi', 'no scheme'],
  ])('becomes no trigger: %s', async (type, why) => {
    expect(await whyNone('svix', { name: 'a', type })).toContain(why);
  });
});

describe('a workflow of n8n', () => {
  const workflow = (parameters: unknown, more: object = {}) => ({
    name: 'Orders',
    nodes: [{ name: 'In', type: 'n8n-nodes-base.webhook', parameters, ...more }],
  });
  const post = { httpMethod: 'POST', path: 'orders' };

  it.each([
    ['none', undefined],
    ['basicAuth', { inputs: { webhookSignatureScheme: 'Basic' } }],
    ['headerAuth', { inputs: { webhookSignatureScheme: 'Token' } }],
    ['jwtAuth', { inputs: { webhookSignatureScheme: 'Jwt' } }],
  ])('with a webhook and authentication %s', async (authentication, verifiedBy) => {
    expect((await only('n8n', workflow({ ...post, authentication }))).verifiedBy).toEqual(verifiedBy);
  });

  it('keeps its list of addresses', async () => {
    const { inputs } = await only('n8n', workflow({ ...post, options: { ipWhitelist: '192.0.2.1, 198.51.100.0/24' } }));
    expect(inputs).toEqual({ webhookIpAllowList: ['192.0.2.1', '198.51.100.0/24'] });
  });

  it.each([
    ['GET by default', { path: 'orders' }, 'takes "GET"'],
    ['an unknown authentication', { ...post, authentication: '={{ $json.how }}' }, 'nothing for its authentication'],
    ['part of an address', { ...post, options: { ipWhitelist: '10.0.' } }, 'addresses'],
    ['an expression for addresses', { ...post, options: { ipWhitelist: '={{ $env.IPS }}' } }, 'addresses'],
    ['an empty entry for addresses', { ...post, options: { ipWhitelist: ',' } }, 'addresses'],
    ['addresses of another kind', { ...post, options: { ipWhitelist: [7] } }, 'addresses'],
    ['a method of another kind', { path: 'orders', httpMethod: { toString: 0 } }, 'takes "{"toString":0}"'],
  ])('becomes no trigger, rather than an open one: %s', async (_, parameters, why) => {
    expect(await whyNone('n8n', workflow(parameters))).toContain(why);
  });

  it('that a publisher starts has its scheme', async () => {
    const { verifiedBy } = await only('n8n', workflow({}, { type: 'n8n-nodes-base.stripeTrigger' }));
    expect(verifiedBy).toEqual({ scheme: 'Stripe' });
  });

  it('is called after its workflow where the path is one that n8n made up', async () => {
    const path = 'd9b2d63d-a233-4123-847a-7090f3b3b3b3';
    expect((await only('n8n', workflow({ ...post, path }))).name).toBe('Orders In');
  });

  it.each([
    ['n8n-nodes-base.code', { jsCode: "crypto.createHmac('sha256', key)" }],
    ['n8n-nodes-base.crypto', { action: 'hmac' }],
  ])('says that a node of type %s may be what verifies', async (type, parameters) => {
    const { nodes, ...more } = workflow({ ...post });
    const { notTaken } = await only('n8n', { ...more, nodes: [...nodes, { name: 'Check', type, parameters }] });
    expect(notTaken?.join()).toContain('what the node "Check" may verify');
  });

  it('leaves out a node that is off', async () => {
    expect(await whyNone('n8n', workflow(post, { disabled: true }))).toContain('disabled');
  });

  it('without a webhook is refused', async () => {
    await expect(read('n8n', workflow({}, { type: 'n8n-nodes-base.scheduleTrigger' }))).rejects.toThrow(NotReadable);
  });
});

describe('a traffic policy of ngrok', () => {
  const policy = (...actions: unknown[]) => ({ on_http_request: [{ actions }] });
  const verify = (provider: unknown, more: object = {}) => ({
    type: 'verify-webhook',
    config: { provider, secret: SECRET, ...more },
  });
  const restrict = (config: unknown) => ({ type: 'restrict-ips', config });

  it.each([
    ['github', 'GitHub'],
    ['sns', 'AmazonSns'],
    ['launch_darkly', 'LaunchDarkly'],
    ['facebook_graph_api', 'Meta'],
    ['clerk', 'StandardWebhooks'],
  ])('that verifies %s', async (provider, scheme) => {
    expect((await only('ngrok', policy(verify(provider)))).verifiedBy).toEqual({ scheme });
  });

  it('is read within an endpoint', async () => {
    const endpoints = [{ name: 'hooks', traffic_policy: policy(verify('slack')) }];
    expect((await only('ngrok', { endpoints })).verifiedBy).toEqual({ scheme: 'Slack' });
  });

  it('that is YAML is refused with the command that converts it', () => {
    const yaml = `on_http_request:\n  - actions:\n      - type: verify-webhook\n        config: { provider: slack, secret: ${SECRET} }\n`;
    const refusal = 'has no JSON object or list; convert YAML with: npx js-yaml@4 FILE.yml > FILE.json';
    expect(() => readImport('ngrok', yaml)).toThrow(new NotReadable(refusal));
  });

  it('that enforces nothing is audited', async () => {
    const { inputs, notes } = await only('ngrok', policy(verify('slack', { enforce: false })));
    expect(inputs).toEqual({ webhookEnforcementMode: 'Audit' });
    expect(notes?.join()).toContain('everything is accepted');
  });

  it('keeps the addresses that it restricts', async () => {
    const lists = { allow: ['192.0.2.0/24'], deny: ['192.0.2.7/32'] };
    const { inputs, notTaken } = await only('ngrok', policy(restrict(lists), verify('slack'), { type: 'log' }));
    expect(inputs).toEqual({ webhookIpAllowList: lists.allow, webhookIpDenyList: lists.deny });
    expect(notTaken).toEqual(['the action "log"']);
  });

  it.each([
    ['an unknown publisher', [verify('worldline')], 'no scheme for "worldline"'],
    ['no publisher', [verify(7)], 'no provider'],
    ['an address that is none', [restrict({ allow: ['secrets.get()'] }), verify('slack')], 'restrict-ips'],
    ['addresses that are kept elsewhere', [restrict({ ip_policies: ['ipp_1'] }), verify('slack')], 'restrict-ips'],
    ['no list', [restrict({}), verify('slack')], 'restrict-ips'],
    ['one address instead of a list', [restrict({ allow: '192.0.2.1' }), verify('slack')], 'restrict-ips'],
    ['an empty list', [restrict({ allow: [] }), verify('slack')], 'restrict-ips'],
    [
      'two lists',
      [restrict({ allow: ['192.0.2.1'] }), restrict({ allow: ['192.0.2.2'] }), verify('slack')],
      'restrict-ips',
    ],
  ])('becomes no trigger, rather than an open one: %s', async (_, actions, why) => {
    expect(await whyNone('ngrok', policy(...actions))).toContain(why);
  });
});

describe('any file', () => {
  it.each(IMPORTED_KINDS)('that is no export of %s is refused', async (kind) => {
    for (const text of [
      '',
      'null',
      '7',
      '"text"',
      '[]',
      '{}',
      '[null, 7, {"name": 7}]',
      '{"nodes": 7}',
      '<html>',
      '- a\n- b: [',
      '\u0000',
    ])
      expect(() => readImport(kind, text)).toThrow(NotReadable);
  });

  it.each(IMPORTED_KINDS)('of any form is read or refused, as an export of %s', async (kind) => {
    const words = fc.constantFrom(
      'name',
      'type',
      'config',
      'auth',
      'nodes',
      'parameters',
      'models',
      'actions',
      'on_http_request',
      'verification',
      '__proto__',
    );
    const values = fc.oneof(
      fc.constantFrom<unknown>(
        'STRIPE',
        'WEBHOOK',
        'github',
        'verify-webhook',
        'n8n-nodes-base.webhook',
        'hookdeck_source',
      ),
      fc.jsonValue(),
    );
    const tree = fc.letrec<{ node: unknown }>((tie) => ({
      node: fc.oneof(
        { maxDepth: 6 },
        values,
        fc.array(tie('node'), { maxLength: 4 }),
        fc.dictionary(words, tie('node'), { maxKeys: 5 }),
      ),
    })).node;
    await fc.assert(
      fc.asyncProperty(tree, async (value) => {
        await read(kind, value).catch((error: unknown) => {
          if (!(error instanceof NotReadable)) throw error;
        });
      }),
    );
  });

  it('that is nested without end is refused', async () => {
    expect(() => readImport('ngrok', '['.repeat(20_000))).toThrow(NotReadable);
    expect(() => readImport('svix', `${'['.repeat(5_000)}${']'.repeat(5_000)}`)).toThrow(NotReadable);
  });

  it('with more triggers than anyone takes over by hand is refused', async () => {
    const sources = Array.from({ length: 1001 }, (_, n) => ({ id: `src_${n}`, name: 'a', type: 'STRIPE' }));
    expect((await read('hookdeck', sources.slice(1))).triggers).toHaveLength(1000);
    await expect(read('hookdeck', sources)).rejects.toThrow(NotReadable);
  });

  it.each(['const crypto = require("crypto");', '7', 'null', ''])('that is not JSON is refused: %j', (text) => {
    expect(() => readImport('svix', text)).toThrow(new NotReadable('has no JSON object or list'));
  });
});
