// biome-ignore-all lint/suspicious/noTemplateCurlyInString: manifests have placeholders in plain strings.

import { createHash, createHmac, createSecretKey, generateKeyPairSync } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { beforeAll, describe, expect, it } from 'vitest';
import { describeSettings, settingsSchema } from '../../src/config/settings-schema.ts';
import { readTokens } from '../../src/config/tokens.ts';
import { Budget } from '../../src/expressions/budget.ts';
import { compileExpression } from '../../src/expressions/compile.ts';
import { DELIVERY_BUDGET_STEPS } from '../../src/expressions/delivery-expressions.ts';
import { withBudget } from '../../src/expressions/metering.ts';
import { ArrivingBody, parseBody } from '../../src/expressions/trigger-body.ts';
import { createSendAlertHandler } from '../../src/features/alerts/send.ts';
import { readAlerts } from '../../src/features/alerts/targets.ts';
import { AnswerLinks, seal } from '../../src/features/approvals/links.ts';
import { ownHandshakes } from '../../src/features/handshake/own-handshakes.ts';
import { createHttpRequestHandler } from '../../src/features/http-request/http-request.ts';
import { readImport } from '../../src/features/imports/command.ts';
import { objectsIn } from '../../src/features/imports/imported.ts';
import { startOfLoop } from '../../src/features/loops/step-types.ts';
import { refuseLongPage } from '../../src/features/reconcile/source.ts';
import { createSealedPlans } from '../../src/features/review/sealed-plans.ts';
import { waitForSignal } from '../../src/flows/handlers/wait-for-signal.ts';
import { problemOfJson } from '../../src/flows/non-json.ts';
import { prepareRevision } from '../../src/flows/prepared-revision.ts';
import { compileBodySchema } from '../../src/manifest/body-schema.ts';
import { readJson } from '../../src/manifest/json-text.ts';
import { loadManifests } from '../../src/manifest/load.ts';
import { secretReader } from '../../src/manifest/read-secret.ts';
import { answerOf } from '../../src/model/answer.ts';
import { decodeForm, decodeMultipart } from '../../src/model/form.ts';
import type { JsonObject } from '../../src/model/json.ts';
import type { Graph, StepDefinition } from '../../src/model/manifest.ts';
import { MAX_BYTES } from '../../src/model/run.ts';
import { readBody } from '../../src/webhooks/read-delivery.ts';
import { createCertificates } from '../../src/webhooks/schemes/certificates.ts';
import { signedPayload } from '../../src/webhooks/schemes/signed-payload.ts';
import { part } from '../../src/webhooks/schemes/spec.ts';
import type { MessageRule } from '../../src/webhooks/schemes/standards/standard.ts';
import { verifyStandard } from '../../src/webhooks/schemes/standards/verify.ts';
import { keysOfSet } from '../../src/webhooks/schemes/standards/verifying-keys.ts';
import { bodyReader } from '../../src/webhooks/schemes/values.ts';
import { ORDERS, ORDERS_ID, startDashboard, type TestDashboard } from '../dashboard/fixture.ts';
import { call } from '../flows/handlers/call.ts';
import { serve } from '../flows/handlers/loopback-server.ts';
import { goodManifest, issuesOf, rules } from '../manifest/rules.ts';
import { SNS_CERTIFICATE, SNS_URL } from '../publishers/certificates.ts';
import { temporaryFolder } from '../temporary.ts';
import { builtIn, deliveryOf, judge, NOW } from '../webhooks/schemes/fixtures.ts';
import { boundsInSource, NO_SIZES } from './limits.ts';

/** Something that is accepted up to its limit, and what it costs. */
interface Sized {
  /** Accepts something of that size; false, or an error, if it is refused. */
  takes(size: number): unknown;
  /** The amount of work, counted. */
  work?(size: number): number | Promise<number>;
  /** A size beyond the limit is not refused here. */
  readonly hasMore?: true;
}

let folder = '';
let dashboard: TestDashboard;
beforeAll(async () => {
  folder = temporaryFolder('limits');
  dashboard = await startDashboard();
});

const times = <Item>(count: number, make: (at: number) => Item): Item[] =>
  Array.from({ length: count }, (_, at) => make(at));
const nested = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`;
const noErrors = (manifest: object) => issuesOf(JSON.stringify(manifest)).every((issue) => !issue.startsWith('error'));
const withTrigger = (inputs: object, fields: object = {}) => {
  const manifest = goodManifest();
  const github = {
    ...manifest.triggers.github,
    ...fields,
    inputs: { ...(manifest.triggers.github?.inputs as object), ...inputs },
  };
  return { ...manifest, triggers: { github } };
};
const chain = (count: number): Graph =>
  Object.fromEntries(
    times(count, (at) => {
      const runAfter: StepDefinition['runAfter'] = at === 0 ? {} : { [`s${at - 1}`]: { statuses: ['Succeeded'] } };
      return [`s${at}`, { type: 'NoOp', inputs: {}, runAfter }];
    }),
  );
const loop = (children = 0): StepDefinition => ({ type: 'ForEach', inputs: {}, runAfter: {}, steps: chain(children) });

/** Steps that an expression over a body takes. */
function stepsOf(source: string, body: unknown): number {
  const budget = new Budget(Number.MAX_SAFE_INTEGER);
  withBudget(budget, () =>
    compileExpression(source, 'delivery').evaluateIn({ roots: { body, headers: {} }, budget } as never),
  );
  return budget.spent;
}

async function post(path: string, body: string): Promise<number> {
  const headers = { 'content-type': 'application/json' };
  return (await dashboard.app.inject({ method: 'POST', url: `/flows/api${path}`, headers, body })).statusCode;
}
/** A body of so many bytes, most of them white space. */
const padded = (value: object, bytes: number) => JSON.stringify(value).padEnd(bytes);

const alert = (inputs: object) =>
  createSendAlertHandler(() => Promise.reject(new Error('nobody is told'))).inputs.safeParse({
    target: 'ops',
    text: 't',
    ...inputs,
  }).success;

const PROBE = { method: 'GET', answer: {} };

const SECRET = 'a secret of more than thirty-two bytes';
const BODY = '{"event":"order.paid"}';

/** A token of so many characters over the body. */
function tokenOf(characters: number): string {
  const hash = createHash('sha256').update(BODY).digest('hex');
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  // Base64 texts of some lengths do not exist, so both parts are filled.
  for (let more = 0; ; more += 1) {
    const header = encode({ alg: 'HS256', more: 'x'.repeat(more) });
    const left = characters - header.length - encode({ iat: NOW / 1000, hash, more: '' }).length - 45;
    const input = `${header}.${encode({ iat: NOW / 1000, hash, more: 'x'.repeat(Math.floor((left * 3) / 4)) })}`;
    const token = `${input}.${createHmac('sha256', SECRET).update(input).digest('base64url')}`;
    if (token.length === characters) return token;
  }
}

/** Whether a message is verified that covers so many headers, with signature headers of so many characters. */
async function isSigned({ components, characters }: { components: number; characters: number }): Promise<boolean> {
  const headers = Object.fromEntries(times(components, (at) => [`x-${at}`, 'v']));
  const names = Object.keys(headers).map((name) => `"${name}"`);
  const parameters = (nonce: string) => `(${names.join(' ')});created=${NOW / 1000};nonce="${nonce}"`;
  const least = `sig=${parameters('')}`.length + `sig=:${'A'.repeat(44)}:`.length;
  const input = parameters('n'.repeat(Math.max(0, characters - least)));
  const base = [...names.map((name) => `${name}: v`), `"@signature-params": ${input}`].join('\n');
  const signature = createHmac('sha256', SECRET).update(base).digest('base64');
  const sent = { ...headers, 'signature-input': `sig=${input}`, signature: `sig=:${signature}:` };
  const rule = {
    kind: 'message',
    components: [],
    requiresDigest: false,
    requiresTimestamp: false,
  } as unknown as MessageRule;
  const key = { kind: 'secret', key: createSecretKey(Buffer.from(SECRET)) } as const;
  const { isVerified } = await verifyStandard(rule, {
    delivery: deliveryOf({ body: BODY, headers: sent }),
    publicUrl: 'https://a.example/',
    leewaySeconds: 60,
    keysFor: async () => ({ current: [key], previous: [] }),
  });
  return isVerified;
}

const SIZES: Readonly<Record<string, Sized>> = {
  'config/tokens.ts 200': {
    takes: (size) => {
      const token = { name: 'a', token: 'a-token-of-the-test-1', scopes: ['read'], flows: ['f'.repeat(size)] };
      return 'tokens' in readTokens([token], () => ({ value: '' }));
    },
  },
  'dashboard/dashboard.ts MAX_BODY_BYTES': {
    takes: async (size) => (await post(`/flows/${ORDERS_ID}/enable`, padded({}, size))) === 200,
  },
  'dashboard/input.ts MAX_REASON': {
    takes: async (size) =>
      (await post(`/flows/${ORDERS_ID}/enable`, JSON.stringify({ reason: 'r'.repeat(size) }))) === 200,
  },
  'features/review/sealed-plans.ts MAX_PLANNED': {
    takes: async (size) => {
      const plans = createSealedPlans({ store: dashboard.store, clock: dashboard.clock, newId: () => ORDERS_ID });
      const asked = {
        request: { getDecorator: () => undefined, method: 'POST', routeOptions: { config: {} } } as never,
        action: 'cancelRuns',
      };
      const ids = times(size, (at) => `0190a000-0000-7000-8000-${String(at).padStart(12, '0')}`);
      const token = await plans.seal({ filter: {}, ids, at: dashboard.clock.now() }, asked);
      const isPlanned = (await post('/runs/cancel', JSON.stringify({ limit: size }))) === 200;
      return isPlanned && (await plans.open(token, {}, asked)).ids.length === size;
    },
  },
  'expressions/compile.ts MAX_LENGTH': {
    takes: (size) => compileExpression('1'.padEnd(size - 1).concat(' ')) && true,
  },
  'expressions/budget.ts BUDGET_STEPS': { takes: (size) => new Budget().charge(size) === undefined },
  'expressions/metering.ts MAX_DYNAMIC_PATTERN': {
    takes: (size) => stepsOf('"aaaa".matches(body)', 'a'.repeat(size)) > 0,
    work: (size) => stepsOf('"aaaa".matches(body)', 'a'.repeat(size)),
  },
  'expressions/trigger-body.ts MAX_KEYED_BYTES': {
    takes: (size) => 'value' in new ArrivingBody(Buffer.from('x'.repeat(size)), { contentType: 'text/plain' }).parsed(),
  },
  'expressions/values.ts MAX_DEPTH': {
    takes: (size) => 'value' in parseBody(Buffer.from(nested(size)), { contentType: 'application/json' }),
  },
  'features/imports/imported.ts MOST_LEVELS': {
    takes: (size) => [...objectsIn(JSON.parse(nested(size + 1)), () => true)].length === 0,
  },
  'features/imports/command.ts MOST_TRIGGERS': {
    takes: async (size) => {
      const sources = times(size, (at) => ({ id: `src_${at}`, name: 'a', type: 'STRIPE' }));
      return (await readImport('hookdeck', JSON.stringify({ models: sources }))).triggers.length === size;
    },
  },
  'features/rehearsal/service.ts 1000': {
    takes: async (size) => {
      const manifests = times(size, (at) => ({
        ...ORDERS,
        id: `0190a000-0000-4000-8000-${String(at).padStart(12, '0')}`,
        name: `flow ${at}`,
        triggers: { byHand: { type: 'manual' } },
        steps: { validate: { type: 'NoOp' } },
      }));
      return (await post('/flows/rehearse', JSON.stringify({ manifests, deliveries: Math.min(size, 1000) }))) === 200;
    },
  },
  'features/loops/step-types.ts MAX_ITEMS': {
    takes: (size) => startOfLoop(loop(), { forEach: times(size, () => 1) }, 'each').items.length === size,
    work: (size) => {
      let reads = 0;
      const items = new Proxy(
        times(size, () => 1),
        {
          get: (target, name) => {
            reads += 1;
            return Reflect.get(target, name) as unknown;
          },
        },
      );
      startOfLoop(loop(), { forEach: items }, 'each');
      return reads;
    },
  },
  'features/loops/step-types.ts MAX_LOOP_STEPS': {
    takes: (size) => startOfLoop(loop(size / 100), { forEach: times(100, () => 1) }, 'each') !== undefined,
  },
  'flows/non-json.ts MAX_DEPTH': {
    takes: (size) => problemOfJson(JSON.parse(nested(size)), 'output', MAX_BYTES.output) === undefined,
  },
  'manifest/body-schema.ts MAX_NESTED': {
    takes: (size) =>
      !(
        'error' in
        compileBodySchema({ properties: Object.fromEntries(times(size, (at) => [`k${at}`, { type: 'string' }])) })
      ),
  },
  'manifest/body-schema.ts MAX_SCHEMAS': {
    takes: (size) => {
      const names = (count: number, of: (at: number) => JsonObject = () => ({})): JsonObject =>
        Object.fromEntries(times(count, (at) => [`k${at}`, of(at)]));
      // In groups of 41, because the call stack cannot hold as many side by side.
      const groups = Math.floor((size - 1) / 41);
      const properties = names(groups + ((size - 1) % 41), (at) => (at < groups ? { properties: names(40) } : {}));
      return !('error' in compileBodySchema({ properties }));
    },
  },
  'manifest/metered-schema.ts MAX_STATES': {
    // Two are the beginning and the end of the pattern.
    takes: (size) => !('error' in compileBodySchema({ pattern: 'a'.repeat(size - 2) })),
  },
  'features/coalesce/trigger.ts 1000': {
    takes: (size) => noErrors(withTrigger({}, { coalesce: { key: 'body.a', collect: size } })),
  },
  'manifest/fields/keys.ts 10': {
    takes: (size) => noErrors(withTrigger({ webhookHmacKey: times(size, (at) => `key number ${at} of the test`) })),
  },
  'manifest/fields/custom.ts 11': {
    takes: (size) =>
      !issuesOf(JSON.stringify(withTrigger({ webhookSignatureHeader: times(size, (at) => `X-Sig-${at}`) }))).some(
        (issue) => issue.includes('webhookSignatureHeader: is too') || issue.includes('at most'),
      ),
  },
  'manifest/json-text.ts MAX_DEPTH': { takes: (size) => readJson(nested(size)).value !== undefined },
  'manifest/load.ts MAX_MANIFEST_BYTES': {
    takes: async (size) => {
      const own = await mkdtemp(join(folder, 'large-'));
      const manifest = {
        ...goodManifest(),
        steps: { say: { type: 'LogMessage', inputs: { message: 'm'.repeat(size >> 1) } } },
      };
      await writeFile(join(own, 'flow.json'), padded(manifest, size));
      const { flows } = await loadManifests(own, rules);
      return flows.length === 1;
    },
  },
  'manifest/parse.ts MAX_STEPS': {
    takes: (size) => noErrors({ ...goodManifest(), triggers: {}, steps: chain(size) }),
    work: (size) => {
      let reads = 0;
      const counted = Object.fromEntries(
        Object.entries(chain(size)).map(([key, step]) => [
          key,
          new Proxy(step, {
            get: (target, name) => {
              reads += 1;
              return Reflect.get(target, name) as unknown;
            },
          }),
        ]),
      );
      prepareRevision({ steps: counted }, 'folder');
      return reads;
    },
  },
  'manifest/schema.ts MAX_NAME': {
    takes: (size) =>
      noErrors({ ...goodManifest(), name: 'n'.repeat(size), triggers: { ['k'.repeat(size)]: { type: 'manual' } } }),
  },
  'manifest/read-secret.ts MAX_FILE_BYTES': {
    takes: (size) => {
      writeFileSync(join(folder, 'key'), 'k'.repeat(size));
      return 'value' in secretReader({ env: {}, baseFolder: folder })('file:key');
    },
  },
  'features/approvals/links.ts MAX_TOKEN': {
    takes: async (size) => {
      const secret = Buffer.alloc(32, 1);
      const links = new AnswerLinks(() => 'https://sluice.example');
      const store = { keepSecret: async () => secret };
      links.connect({ store } as unknown as Parameters<AnswerLinks['connect']>[0]);
      // Three bytes become four characters; 36 of them are not the step's key.
      const stepKey = 'k'.repeat(Math.ceil((size * 3) / 4) - 36);
      const found = await links.open(seal(secret, { runId: ORDERS_ID, stepKey, expiresAt: NOW }));
      return found?.stepKey === stepKey;
    },
  },
  'features/approvals/service.ts MAX_BODY_BYTES': {
    takes: async (size) => {
      const body = `choice=${'x'.repeat(size - 'choice='.length)}`;
      const headers = { 'content-type': 'application/x-www-form-urlencoded' };
      const url = '/flows/api/webhook/answers/none';
      return (await dashboard.app.inject({ method: 'POST', url, headers, body })).statusCode === 404;
    },
  },
  'config/settings-schema.ts 4096': {
    takes: (size) => settingsSchema.shape.vars.safeParse({ REGION: 'x'.repeat(size) }).success,
  },
  'flows/handlers/wait-for-signal.ts 20': {
    takes: (size) => waitForSignal.inputs.safeParse({ choices: times(size, (at) => `c${at}`) }).success,
  },
  'flows/handlers/wait-for-signal.ts 1000': {
    takes: (size) => waitForSignal.inputs.safeParse({ question: 'x'.repeat(size) }).success,
  },
  'features/reconcile/log-schema.ts 20': {
    takes: (size) => {
      const reconcile = { from: 'stripe', token: 'env:API_TOKEN', types: times(size, (at) => `invoice.t${at}`) };
      return !issuesOf(JSON.stringify(withTrigger({}, { reconcile }))).some((issue) => issue.includes('.types'));
    },
  },
  'model/form.ts MAX_FORM_FIELDS': {
    takes: (size) => {
      const field = '--b\r\ncontent-disposition: form-data; name="a"\r\n\r\n1\r\n';
      const multipart = decodeMultipart(Buffer.from(`${field.repeat(size)}--b--`), 'b');
      const form = decodeForm(Buffer.from(times(size, (at) => `f${at}=1`).join('&')));
      return multipart?.length === size && form?.length === size;
    },
  },
  'features/search-keys/keys.ts MAX_SEARCH_KEYS': {
    takes: (size) =>
      noErrors(withTrigger({}, { searchKeys: Object.fromEntries(times(size, (at) => [`k${at}`, 'body.a'])) })),
  },
  'features/alerts/send.ts 100': { takes: (size) => alert({ lines: times(size, (at) => ({ text: `line ${at}` })) }) },
  'features/alerts/send.ts 4000': { takes: (size) => alert({ text: 't'.repeat(size) }) },
  'features/alerts/targets.ts 50': {
    takes: (size) => {
      const to = times(size, (at) => `ops${at}@example.com`);
      const mail = { type: 'smtp', host: 'mail.example.com', from: 'a@example.com', to };
      return 'alerts' in readAlerts({ targets: { mail } }, () => ({ value: 'v' }));
    },
  },
  'features/imports/command.ts MOST_BYTES': {
    hasMore: true,
    takes: async (size) => {
      const sources = [{ id: 'src_1', name: 'a', type: 'STRIPE' }];
      return (await readImport('hookdeck', padded({ models: sources }, size))).triggers.length === 1;
    },
  },
  'features/reconcile/source.ts MOST_ON_PAGE': { takes: (size) => refuseLongPage({ length: size }) === undefined },
  'features/review/service.ts 500': {
    takes: async (size) => (await post('/webhooks/redeliver', JSON.stringify({ limit: size }))) === 200,
  },
  'features/http-request/http-request.ts MAX_REDIRECTS': {
    takes: async (size) => {
      const { origin } = await serve((request, response) => {
        const at = Number(request.url?.slice(1) ?? 0);
        if (at === size) response.end('there');
        else response.writeHead(302, { location: `/${at + 1}` }).end();
      });
      const handler = createHttpRequestHandler({ egressAllow: ['127.0.0.0/8'] });
      return (await call(handler, { url: origin })).kind === 'succeeded';
    },
  },
  'model/run.ts MAX_BYTES': {
    hasMore: true,
    takes: () =>
      Object.values(MAX_BYTES).every(
        (most) =>
          problemOfJson('x'.repeat(most - 2), 'output', most) === undefined &&
          problemOfJson('x'.repeat(most - 1), 'output', most) !== undefined,
      ),
  },
  'expressions/delivery-expressions.ts DELIVERY_BUDGET_STEPS': {
    takes: (size) => new Budget(DELIVERY_BUDGET_STEPS).charge(size) === undefined,
  },
  'webhooks/schemes/certificates.ts MAX_LENGTH': {
    takes: async (size) => {
      const clock = { now: () => NOW, monotonic: () => 0 };
      const certificates = createCertificates({ fetch: async () => SNS_CERTIFICATE.padEnd(size), clock });
      const key = certificates.keyFor({ spec: builtIn('AmazonSns'), isSandbox: false }, SNS_URL, '192.0.2.1');
      return (await key) !== undefined;
    },
  },
  'webhooks/schemes/signed-payload.ts MAX_LISTED': {
    takes: (size) => {
      const headers = Object.fromEntries(times(size, (at) => [`x-${at}`, 'v']));
      const delivery = deliveryOf({
        headers: { ...headers, 'x-signed': ['x-signed', ...Object.keys(headers).slice(1)].join(',') },
      });
      const readField = bodyReader({}, delivery.body);
      const given = {
        delivery,
        publicUrl: '',
        timestamp: undefined,
        deliveryId: undefined,
        name: undefined,
        readField,
      };
      return signedPayload({ signs: [part.headers('x-signed')] }, given).isComplete;
    },
  },
  'webhooks/schemes/standards/jwt.ts MAX_LENGTH': {
    takes: async (size) => {
      const { passed } = await judge(
        { inputs: { webhookSignatureScheme: 'Jwt', webhookJwtBodyHashClaim: 'hash' }, key: SECRET },
        deliveryOf({ body: BODY, headers: { authorization: `Bearer ${tokenOf(size)}` } }),
      );
      return passed;
    },
  },
  'webhooks/schemes/standards/message-signatures.ts MAX_LENGTH': {
    takes: (size) => isSigned({ components: 1, characters: size }),
  },
  'webhooks/schemes/standards/message-signatures.ts MAX_COMPONENTS': {
    takes: (size) => isSigned({ components: size, characters: 0 }),
  },
  'webhooks/schemes/standards/verifying-keys.ts MAX_KEYS': {
    hasMore: true,
    takes: (size) => {
      const jwk = generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' }) as JsonObject;
      return keysOfSet({ keys: times(size, (at) => ({ ...jwk, kid: `k${at}` })) }).length === size;
    },
  },
  'webhooks/schemes/verify.ts MAX_SEGMENTS': {
    takes: async (size) => {
      const t = NOW / 1000;
      const v1 = createHmac('sha256', SECRET).update(`${t}.${BODY}`).digest('hex');
      const others = times(size - 2, (at) => `v1=${String(at).padStart(64, '0')}`);
      const headers = { 'stripe-signature': [`t=${t}`, ...others, `v1=${v1}`].join(',') };
      const { passed } = await judge(
        { inputs: { webhookSignatureScheme: 'Stripe' }, key: SECRET },
        deliveryOf({ body: BODY, headers }),
      );
      return passed;
    },
  },
  'features/handshake/trigger.ts MOST_HANDSHAKES': {
    takes: (size) =>
      noErrors(withTrigger({ webhookHandshake: times(size, (at) => ({ ...PROBE, when: `query.n == '${at}'` })) })),
  },
  'features/handshake/trigger.ts 299': {
    takes: (status) => noErrors(withTrigger({ webhookHandshake: { ...PROBE, answer: { status } } })),
  },
  'features/handshake/trigger.ts MOST_HEADERS': {
    takes: (size) => {
      const headers = Object.fromEntries(times(size, (at) => [`x-${at}`, 'v']));
      return noErrors(withTrigger({ webhookHandshake: { ...PROBE, answer: { headers } } }));
    },
  },
  'features/handshake/trigger.ts MOST_CHARACTERS': {
    takes: (size) => {
      const body = 'x'.repeat(size - JSON.stringify({ body: '' }).length);
      return noErrors(withTrigger({ webhookHandshake: { ...PROBE, answer: { body } } }));
    },
  },
  'features/handshake/own-handshakes.ts MOST_BODY_BYTES': {
    takes: (size) => {
      const query = new URLSearchParams({ fill: 'x'.repeat(size) });
      const [probe] = ownHandshakes([{ method: 'GET', answer: { body: '${query.fill}' } }]);
      return probe?.answer({ query, headers: {}, body: Buffer.alloc(0) }) !== undefined;
    },
  },
  'model/answer.ts MAX_HEADER': {
    takes: (size) => typeof answerOf({ headers: { 'cache-control': 'x'.repeat(size) } }) === 'object',
  },
};

/** Bounds that another test checks, with its rule. */
const ELSEWHERE: Readonly<Record<string, readonly [file: string, rule: string]>> = {
  'features/sign-on/service.ts MAX_NAME_CHARACTERS': [
    'features/sign-on/sign-on.test.ts',
    'signs in who has a name of 128 characters',
  ],
  'webhooks/content.ts MAX_CODINGS': ['webhooks/content.test.ts', 'is decoded in four layers, and in more refused'],
  'expressions/forms.ts MAX_FILE_BYTES': [
    'expressions/trigger-body.test.ts',
    'leaves out the content of files beyond 1 MiB in one form, and says how large they are',
  ],
  'features/respond/flow-answers.ts MOST_ANSWER_BYTES': [
    'store/conformance/large-runs.ts',
    'cuts a value that is too large, and every value once the answer is full',
  ],
  'features/search-keys/keys.ts KEY_BUDGET_STEPS': [
    'features/search-keys/keys.test.ts',
    'numbers that are kept exactly',
  ],
  'features/reconcile/ask-log.ts MAX_BYTES': [
    'features/reconcile/ask-log.test.ts',
    'come as they were sent, whatever their length',
  ],
  'features/reconcile/round.ts MOST_ID_CHARACTERS': ['features/reconcile/round.test.ts', 'x-long'],
  'features/reconcile/round.ts MOST_HEADER_CHARACTERS': ['features/reconcile/round.test.ts', 'x-long'],
  'features/rehearsal/test-files.ts MAX_TEST_BYTES': ['features/rehearsal/saved-tests.proof.ts', 'LARGE'],
  'flows/handlers/guarded-get.ts MAX_BYTES': ['flows/handlers/guarded-get.test.ts', 'toHaveLength(65_536)'],
  'features/http-request/http-request.ts MAX_RESPONSE_BYTES': [
    'features/http-request/http-request.test.ts',
    'passes with exactly 1 MiB',
  ],
  'model/manifest.ts MAX_FLOW_DEPTH': ['manifest/sub-flows.test.ts', 'a chain of as many flows as may be is accepted'],
};

/** Parameters of the API; the last test asks at their limits. */
const PARAMETERS = [
  'dashboard/input.ts 500',
  'dashboard/input.ts 720',
  'model/search-keys.ts MAX_KEY',
  'features/review/sealed-plans.ts 400_000',
  'features/activity/service.ts 300',
  'features/activity/service.ts 64',
  'features/activity/service.ts 90',
  'features/consumers/service.ts 200',
  'features/consumers/service.ts 80',
  'features/consumers/service.ts MAX_DELIVERIES',
  'features/deliveries/service.ts 200',
  'features/deploys/service.ts 40',
  'features/figures/service.ts 365',
  'features/figures/service.ts MAX_BUCKETS',
  'features/figures/service.ts MAX_MINUTES',
  'features/flows/flow-control.ts 200',
  'features/flows/flow-control.ts 255',
  'features/hosts/service.ts 200',
  'features/review/service.ts 256',
  'features/runs/history.ts MAX_EVENTS',
  'features/runs/runs.ts 100',
  'features/runs/runs.ts 1000',
  'features/runs/runs.ts 200',
  'features/runs/runs.ts 300',
  'features/runs/steps.ts MAX_KEY_CHARACTERS',
  'features/runs/steps.ts MAX_STEPS',
  'features/schedules/service.ts 100',
  'features/schedules/service.ts 200',
  'features/schedules/service.ts 400',
];

const bounds = boundsInSource();

it('names each bound of the source: what is accepted is run at its limit', () => {
  const named = [...Object.keys(SIZES), ...Object.keys(ELSEWHERE), ...PARAMETERS, ...Object.values(NO_SIZES).flat()];
  expect(named.filter((name, at) => named.indexOf(name) !== at)).toEqual([]);
  expect({
    unnamed: [...bounds.keys()].filter((bound) => !named.includes(bound)),
    gone: named.filter((name) => !bounds.has(name)),
  }).toEqual({ unnamed: [], gone: [] });
});

it.each(Object.entries(ELSEWHERE))('%s has a test elsewhere', (_name, [file, rule]) => {
  expect(readFileSync(join(import.meta.dirname, '..', file), 'utf8')).toContain(rule);
});

describe.each(Object.entries(SIZES))('%s', (name, { takes, work, hasMore = false }) => {
  const limit = bounds.get(name) ?? 0;
  // One more, or a hundred where sizes come in hundreds.
  const beyond = limit + (name.endsWith('MAX_LOOP_STEPS') ? 100 : 1);
  const isTaken = async (size: number) => {
    try {
      return (await takes(size)) !== false;
    } catch {
      return false;
    }
  };

  it('is accepted', async () => {
    expect(await takes(limit)).toBe(true);
  });

  if (!hasMore) {
    it('is the limit', async () => {
      expect(await isTaken(beyond)).toBe(false);
    });
  }

  if (work !== undefined) {
    it('takes work that grows as the size does', async () => {
      const [few, many] = [await work(limit / 4), await work(limit)];
      expect(few).toBeGreaterThan(0);
      expect(many).toBeLessThan(few * 5);
    });
  }
});

it.each(
  describeSettings().flatMap(({ name, accepts }) => {
    const most = /an integer(?: of seconds)? from (\d+) to (\d+)/.exec(accepts)?.[2];
    return most === undefined ? [] : [[name, Number(most)] as const];
  }),
)('the setting %s takes %i and no more', (name, most) => {
  const { success: isTaken } = settingsSchema.shape[name].safeParse(String(most));
  expect([isTaken, settingsSchema.shape[name].safeParse(String(most + 1)).success]).toEqual([true, false]);
});

it('reads the largest body that a setting allows, each byte once', async () => {
  const most = 268_435_456;
  const chunk = Buffer.alloc(most / 64, 'x');
  let read = 0;
  const chunks = function* () {
    for (let at = 0; at < 64; at += 1) {
      read += chunk.length;
      yield chunk;
    }
  };
  const allowance = { take: () => true, release: () => {} };
  const body = await readBody(Readable.from(chunks()), String(most), { maxBytes: most, allowance });
  expect([body.length, read]).toEqual([most, most]);
});
