// biome-ignore-all lint/suspicious/noTemplateCurlyInString: manifests have placeholders in plain strings.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { stepTypes } from '../../src/config/steps.ts';
import { handlerTable } from '../../src/flows/handlers/index.ts';
import { parseManifest } from '../../src/manifest/load.ts';
import { webhookChecks } from '../../src/webhooks/checks.ts';
import { gateChain, gatePreparer } from '../../src/webhooks/gates/index.ts';
import { sampleSettings } from '../webhooks/samples.ts';

type Json = ReturnType<typeof JSON.parse>;

const rules = {
  handlers: handlerTable(stepTypes().handlers),
  readSecret: (reference: string) =>
    reference === 'env:KEY' ? { value: 'a key of thirty-two characters !!' } : { error: 'is not set' },
  strict: false,
  checks: [webhookChecks(gatePreparer(gateChain(), sampleSettings()))],
};

function good(): Json {
  return {
    id: '0b7c9d10-0000-4000-8000-000000000001',
    name: 'Orders',
    version: '1',
    triggers: {
      github: {
        type: 'webhook',
        inputs: { webhookSlug: 'orders', webhookSignatureScheme: 'GitHub', webhookHmacKey: 'env:KEY' },
      },
      lists: {
        type: 'webhook',
        inputs: {
          webhookSlug: 'lists',
          webhookSignatureScheme: 'Stripe',
          webhookHmacKey: 'env:KEY',
          webhookIpAllowList: ['192.0.2.0/24'],
          webhookIpDenyList: ['192.0.2.9'],
          webhookIpAllowListPresets: ['private'],
          webhookRateLimitPermitsPerSecond: 5,
          webhookRateLimitBurstSize: 9,
        },
      },
      custom: {
        type: 'webhook',
        inputs: {
          webhookSlug: 'custom',
          webhookHmacKey: 'env:KEY',
          webhookSignatureScheme: 'Custom',
          webhookSignatureHeader: 'X-Signature',
          webhookSignatureMultiValueDelimiter: ',',
          webhookSignatureValueKey: 'v1',
          webhookAcceptedVersions: ['v1', 'v2'],
          webhookSignedPayloadStrategy: 'TimestampDotBody',
          webhookTimestampValueKey: 't',
          webhookReplayToleranceSeconds: 300,
        },
      },
      nightly: { type: 'cron', inputs: { cronExpression: '0 2 * * *', timeZone: 'UTC' } },
      byHand: { type: 'manual' },
    },
    steps: {
      a: { type: 'NoOp' },
      b: {
        type: 'HttpRequest',
        inputs: { url: 'https://example.com/', headers: { authorization: 'env:KEY' } },
        runAfter: { a: ['Succeeded'] },
        retry: { maxAttempts: 2 },
      },
      c: {
        type: 'LogMessage',
        inputs: { message: '${steps.b.output.status}', level: 'info' },
        runAfter: { b: { statuses: ['Succeeded'], when: 'trigger.body.x > 1' } },
      },
      each: {
        type: 'ForEach',
        forEach: '${trigger.body.items}',
        runAfter: { a: ['Succeeded'] },
        steps: {
          one: { type: 'Transform', inputs: { value: '${loop.item}' } },
          two: { type: 'NoOp', runAfter: { one: ['Succeeded'] } },
        },
      },
    },
  };
}

type Plant = readonly [path: string, edit: (manifest: Json) => void];

const inputs = (trigger: string, field: string, value: Json): Plant => [
  `triggers.${trigger}.inputs.${field}`,
  ({ triggers }) => Object.assign(triggers[trigger].inputs, { [field]: value }),
];
const put = (path: string, value: Json): Plant => [
  path,
  (manifest) => {
    const keys = path.split('.');
    const last = keys.pop() ?? '';
    keys.reduce((inner, key) => {
      inner[key] ??= {};
      return inner[key];
    }, manifest)[last] = value;
  },
];
/** Another trigger or step with a mistake in it. */
const add = (path: string, kind: 'triggers' | 'steps', entries: Json): Plant => [
  path,
  (manifest) => Object.assign(manifest[kind], entries),
];

/** Independent mistakes: any of them may be in one file. */
const PLANTS: readonly Plant[] = [
  put('id', 'orders'),
  put('version', 1),
  put('name', ''),
  put('timeoutSeconds', 0),
  put('trigger', {}),
  inputs('github', 'webhookSlug', '!'),
  inputs('github', 'webhookHmacKey', 'env:NOPE'),
  inputs('github', 'webhookNonceHeader', 'not a name'),
  inputs('github', 'webhookEnforcementMode', 'Loud'),
  inputs('github', 'webhookNonsense', 1),
  inputs('github', 'webhookDuplicateResponse', true),
  inputs('lists', 'webhookSlug', 7),
  inputs('lists', 'webhookIpAllowList', ['192.0.2.0/40', 'nowhere']),
  inputs('lists', 'webhookIpDenyList', ['192.0.2.9-192.0.2.1']),
  inputs('lists', 'webhookIpAllowListPresets', ['privat', 'githib']),
  inputs('lists', 'webhookIpAllowListPreset', 5),
  inputs('lists', 'webhookRateLimitPermitsPerSecond', 'many'),
  inputs('lists', 'webhookRateLimitBurstSize', 0),
  inputs('custom', 'webhookSignatureHeader', 'X Signature'),
  inputs('custom', 'webhookSignatureEncoding', 'hex'),
  inputs('custom', 'webhookSignatureAlgorithm', 'md5'),
  inputs('custom', 'webhookSignedPayloadVersion', 'v0'),
  inputs('custom', 'webhookCustomStrategyName', 'mine'),
  inputs('custom', 'webhookPublicUrl', 'nowhere'),
  inputs('custom', 'webhookTimestampValueKey', 'v2'),
  inputs('custom', 'webhookIpDenyList', 'nowhere'),
  add('triggers.burst.inputs.webhookRateLimitBurstSize', 'triggers', {
    burst: {
      type: 'webhook',
      inputs: { webhookSignatureScheme: 'GitHub', webhookHmacKey: 'env:KEY', webhookRateLimitBurstSize: 5 },
    },
  }),
  add('triggers.bare.inputs.webhookSignatureHeader', 'triggers', {
    bare: { type: 'webhook', inputs: { webhookSignatureScheme: 'Custom', webhookHmacKey: 'env:KEY' } },
  }),
  add('triggers.hook.type', 'triggers', { hook: { type: 'hook' } }),
  add('triggers.text', 'triggers', { text: 'manual' }),
  inputs('nightly', 'cronExpression', 'never'),
  inputs('nightly', 'timeZone', 'Mars/Olympus'),
  put('steps.a.timeoutSeconds', 0),
  put('steps.a.forEach', []),
  add('steps.typo.type', 'steps', { typo: { type: 'HttpRequst', inputs: { url: 1 } } }),
  put('steps.b.retry.maxAttempts', 0),
  put('steps.b.retry.again', true),
  put('steps.b.runAfter.nowhere', ['Succeeded']),
  ['steps.b.runAfter.a[0]', ({ steps }) => Object.assign(steps.b.runAfter, { a: ['Success'] })],
  put('steps.c.inputs.level', 'loud'),
  put('steps.c.inputs.message', '${trigger.}'),
  put('steps.c.runAfter.b.when', '1 =='),
  put('steps.c.timeoutSeconds', 'long'),
  put('steps.c.runsAfter', {}),
  put('steps.each.type', 'Foreach'),
  put('steps.each.forEach', '${trigger.body.items'),
  put('steps.each.concurrencyLimit', 0),
  put('steps.a.concurrency', 0),
  put('steps.each.steps.one.inputs.value', '${steps.nope.output}'),
  put('steps.each.steps.one.retry', 3),
  put('steps.each.steps.two.runAfter.three', ['Failed']),
  put('steps.each.steps.four', null),
  add('steps.call.inputs.url', 'steps', { call: { type: 'HttpRequest', inputs: { url: 'env:NOPE' } } }),
  add('steps.call2.inputs.timeoutSeconds', 'steps', {
    call2: { type: 'HttpRequest', inputs: { url: 'https://example.com/', timeoutSeconds: -1 } },
  }),
  add('steps.call3.inputs.method', 'steps', {
    call3: { type: 'HttpRequest', inputs: { url: 'https://example.com/', forwardBody: true } },
  }),
  [
    'steps.b.inputs.pollConditionEquals',
    ({ steps }) => Object.assign(steps.b.inputs, { pollConditionPath: 'body.state' }),
  ],
  put('steps.b.inputs.expectedStatuses', 'fine'),
  put('steps.b.inputs.retries', 3),
  add('steps.wait.inputs', 'steps', { wait: { type: 'Delay', inputs: {} } }),
  add('steps.later', 'steps', { later: 7 }),
  add('steps.list.inputs', 'steps', { list: { type: 'HttpRequest', inputs: [] } }),
  add('steps.y.runAfter.x', 'steps', {
    x: { type: 'NoOp', runAfter: { y: ['Succeeded'] } },
    y: { type: 'NoOp', runAfter: { x: ['Succeeded'] } },
  }),
  add('steps["bad.key"]', 'steps', { 'bad.key': { type: 'NoOp' } }),
];

function check(edits: readonly Plant[]) {
  const manifest = good();
  for (const [, edit] of edits) edit(manifest);
  const { issues } = parseManifest(JSON.stringify(manifest), 'flow.json', rules);
  const pathsOf = (wanted: string) => issues.filter(({ severity }) => severity === wanted).map(({ path }) => path);
  return { errors: pathsOf('error').sort(), warnings: pathsOf('warning').sort() };
}

describe('a manifest with mistakes', () => {
  it('starts from a manifest without mistakes', () => {
    expect(check([]).errors).toEqual([]);
  });

  it.each(PLANTS.map((plant) => [plant[0], plant] as const))('is refused at %s, and nowhere else', (path, plant) => {
    expect(check([plant])).toEqual({ errors: [path], warnings: check([]).warnings });
  });

  it('is refused at all of them in one pass', () => {
    expect(check(PLANTS).errors).toEqual(PLANTS.map(([path]) => path).sort());
  });

  it('is refused at exactly the places of its mistakes', () => {
    fc.assert(
      fc.property(fc.subarray([...PLANTS], { minLength: 2 }), (plants) => {
        const { errors, warnings } = check(plants);
        expect(errors).toEqual(plants.map(([path]) => path).sort());
        expect(check([]).warnings).toEqual(expect.arrayContaining(warnings));
      }),
      { numRuns: 100 },
    );
  });

  it('is refused for fields that do not fit together although a third holds a placeholder', () => {
    const manifest = good();
    manifest.steps.b.inputs = { url: '${trigger.body.url}', forwardBody: true };
    const { issues } = parseManifest(JSON.stringify(manifest), 'flow.json', rules);
    expect(issues.flatMap(({ severity, path }) => (severity === 'error' ? [path] : []))).toEqual([
      'steps.b.inputs.method',
    ]);
  });

  it('names every bad entry of a list', () => {
    const manifest = good();
    manifest.triggers.lists.inputs.webhookIpDenyList = ['10.0.0.0/40', '10.0.0.1', 'nowhere'];
    const { issues } = parseManifest(JSON.stringify(manifest), 'flow.json', rules);
    expect(issues.map(({ message }) => message).join()).toMatch(/"10\.0\.0\.0\/40" .*; "nowhere" /);
  });
});
