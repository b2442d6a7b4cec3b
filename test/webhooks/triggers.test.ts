import { describe, expect, it } from 'vitest';
import type { DeployedFlow } from '../../src/flows/catalog.ts';
import type { WebhookInputs } from '../../src/manifest/webhook-inputs.ts';
import { GateConfigurationError } from '../../src/webhooks/gate.ts';
import { gateChain, gatePreparer } from '../../src/webhooks/gates/index.ts';
import { createSchemeRegistry } from '../../src/webhooks/schemes/resolve.ts';
import { createTriggerTable } from '../../src/webhooks/triggers.ts';
import { deployedFlow, FLOW_ID, sampleSettings, sampleTrigger } from './samples.ts';

const OTHER_ID = '7d9e4a52-6f0e-4b7e-9a38-5d5c0b5a9c22';

function flowOf(hooks: Record<string, WebhookInputs>, id = FLOW_ID): DeployedFlow {
  const webhooks = Object.entries(hooks).map(([triggerKey, inputs]) =>
    sampleTrigger(inputs, { triggerKey, flowId: id }),
  );
  return deployedFlow({ id, webhooks });
}

const tableOf = (...flows: DeployedFlow[]) =>
  createTriggerTable({ flows, defaultMode: 'Audit', preparer: gatePreparer(gateChain(), sampleSettings()) });

const only = (inputs: WebhookInputs) => tableOf(flowOf({ hook: inputs })).list()[0];

describe('createTriggerTable', () => {
  const table = tableOf(
    flowOf({ second: { webhookSlug: 'Orders-In' }, first: { webhookSlug: 'refunds' }, bare: {} }),
    flowOf({ hook: {} }, OTHER_ID),
    flowOf({}, '00000000-0000-4000-8000-000000000000'),
  );
  const keyOf = (idOrSlug: string) => table.find(idOrSlug)?.trigger.triggerKey;

  it.each([
    ['orders-in', 'second'],
    ['ORDERS-IN', 'second'],
    ['refunds', 'first'],
    [FLOW_ID, 'second'],
    [FLOW_ID.toUpperCase(), 'second'],
    [OTHER_ID, 'hook'],
    ['bare', undefined],
    ['orders', undefined],
    ['', undefined],
    ['__proto__', undefined],
    ['00000000-0000-4000-8000-000000000000', undefined],
  ])('finds by slug or GUID in any case, a GUID meaning the first webhook trigger: "%s" is %s', (idOrSlug, key) => {
    expect(keyOf(idOrSlug)).toBe(key);
  });

  it('lists every webhook trigger in order', () => {
    expect(table.list().map(({ trigger }) => trigger.triggerKey)).toEqual(['second', 'first', 'bare', 'hook']);
  });

  it('leads nowhere by the GUID where the first trigger has lost its slug to another flow: the next may judge by less', () => {
    const flow = flowOf({ first: { webhookSlug: 'one' }, second: { webhookSlug: 'two' } });
    const webhooks = flow.loaded.webhooks.slice(1);
    const table = tableOf({ ...flow, loaded: { ...flow.loaded, webhooks } });
    expect([FLOW_ID, 'one', 'two'].map((name) => table.find(name)?.trigger.triggerKey)).toEqual([
      undefined,
      undefined,
      'second',
    ]);
  });

  it('finds what is not served by its slug, and by the GUID where it is the first webhook trigger', () => {
    const why = 'its scheme has gone';
    const flow = flowOf({ first: { webhookSlug: 'One' }, second: { webhookSlug: 'two' } });
    const without = (triggerKey: string, slug: string): DeployedFlow => {
      const webhooks = flow.loaded.webhooks.filter((each) => each.triggerKey !== triggerKey);
      return { ...flow, loaded: { ...flow.loaded, webhooks, unserved: [{ triggerKey, slug, why }] } };
    };
    const names = ['one', 'TWO', FLOW_ID.toUpperCase(), 'three'];
    const found = (table: ReturnType<typeof tableOf>) =>
      names.map((name) => [table.find(name)?.trigger.triggerKey, table.findUnserved(name)?.triggerKey]);
    expect(found(tableOf(without('first', 'One')))).toEqual([
      [undefined, 'first'],
      ['second', undefined],
      [undefined, 'first'],
      [undefined, undefined],
    ]);
    expect(found(tableOf(without('second', 'two')))).toEqual([
      ['first', undefined],
      [undefined, 'second'],
      ['first', undefined],
      [undefined, undefined],
    ]);
  });

  describe('serves neither of two triggers at a name that they may not share, and all others', () => {
    const shared = { webhookSlug: 'orders', webhookShared: true };
    const other = flowOf({ b: { webhookSlug: 'other' } }, OTHER_ID);
    it.each([
      ['of two flows', [flowOf({ a: { webhookSlug: 'orders' } }), flowOf({ b: { webhookSlug: 'ORDERS' } }, OTHER_ID)]],
      ['of one flow', [flowOf({ a: { webhookSlug: 'orders' }, b: { webhookSlug: 'ORDERS' } }), other]],
      ['of one flow that share it', [flowOf({ a: shared, b: shared }), other]],
      ['of one flow behind another flow’s', [flowOf({ a: shared }), flowOf({ b: shared, c: shared }, OTHER_ID)]],
      ['of which one shares it', [flowOf({ a: shared }), flowOf({ b: { webhookSlug: 'orders' } }, OTHER_ID)]],
    ])('%s', (_which, flows) => {
      const table = tableOf(...flows, flowOf({ c: { webhookSlug: 'third' } }, '00000000-0000-4000-8000-000000000001'));
      expect([table.find('orders'), table.findAll('Orders')]).toEqual([undefined, []]);
      expect(table.findUnserved('ORDERS')?.why).toMatch(/^the slug is .*; the triggers are .+ and /);
      expect(table.apart().map(({ slug }) => slug)).toEqual(['orders']);
      expect(table.find('third')?.trigger.triggerKey).toBe('c');
    });

    it('of which one has the other’s id as its slug', () => {
      const table = tableOf(flowOf({ a: { webhookSlug: 'a' } }), flowOf({ b: { webhookSlug: FLOW_ID } }, OTHER_ID));
      expect(table.find(FLOW_ID)?.trigger.triggerKey).toBe('a');
      expect(table.apart().map(({ slug, why }) => [slug, why])).toEqual([[FLOW_ID, 'the slug is the id of a flow']]);
    });
  });

  it('has each trigger’s own mode, or the default', () => {
    expect(only({ webhookEnforcementMode: 'Enforce' })?.mode).toBe('Enforce');
    expect(only({})?.mode).toBe('Audit');
  });

  it.each([
    [{}, []],
    [{ webhookIpAllowList: ['10.0.0.0/8'] }, ['ip']],
    [{ webhookSignatureScheme: 'Nobody', webhookHmacKey: 'k' }, []],
    [{ webhookSignatureScheme: 'github', webhookHmacKey: 'k' }, ['signature']],
    [
      {
        webhookNonceHeader: 'X-Id',
        webhookSignatureScheme: 'github',
        webhookHmacKey: 'k',
        webhookRateLimitPermitsPerSecond: 1,
        webhookIpDenyList: ['10.0.0.0/8'],
      },
      ['ip', 'rateLimit', 'signature', 'replay'],
    ],
  ] as [WebhookInputs, string[]][])('prepares the gates of %o, and those alone, in order: %o', (inputs, names) => {
    expect(only(inputs)?.gates.map(({ name }) => name)).toEqual(names);
  });

  it('puts an operator’s own gates behind the built-in ones', () => {
    const own = { name: 'own', prepare: () => ({ name: 'own', check: () => ({ passed: true as const }) }) };
    const options = { flows: [flowOf({ hook: { webhookNonceHeader: 'X-Id' } })], defaultMode: 'Off' as const };
    const preparer = gatePreparer(gateChain([own]), sampleSettings());
    const [prepared] = createTriggerTable({ ...options, preparer }).list();
    expect(prepared?.gates.map(({ name }) => name)).toEqual(['replay', 'own']);
  });

  it('stops at a field that no gate can work with', () => {
    expect(() => only({ webhookIpAllowList: ['nowhere'] })).toThrow(GateConfigurationError);
  });

  it.each([
    [{}, null, false],
    [{ webhookSignatureScheme: 'Nobody' }, null, false],
    [{ webhookSignatureScheme: ' GITHUB ', webhookHmacKey: 'k' }, 'GitHub', false],
    [{ webhookSignatureScheme: 'github' }, 'GitHub', true],
    [{ webhookSignatureScheme: 'acme' }, 'Acme', false],
  ] as [WebhookInputs, string | null, boolean][])(
    'of %o the scheme is %s, and it lacks a key: %s',
    (inputs, name, lacksKey) => {
      const verifier = { name: 'Acme', verify: () => ({ outcome: 'verified' as const }) };
      const settings = sampleSettings({ schemes: createSchemeRegistry({ verifiers: [verifier] }) });
      const [prepared] = createTriggerTable({
        flows: [flowOf({ hook: inputs })],
        defaultMode: 'Off',
        preparer: gatePreparer(gateChain(), settings),
      }).list();
      expect(prepared).toMatchObject({ schemeName: name, lacksKey });
    },
  );

  it('answers an accepted delivery as the trigger says, else as the publisher wants it, else with the ids', () => {
    const own = { contentType: 'text/plain', body: 'thanks' };
    const twilio = { webhookSignatureScheme: 'Twilio', webhookHmacKey: 'k' };
    expect(only({ ...twilio, webhookResponse: own })?.acceptedResponse).toEqual(own);
    expect(only(twilio)?.acceptedResponse?.contentType).toContain('xml');
    expect(only({})?.acceptedResponse).toBeUndefined();
  });

  it('answers as plain text where a stored revision names a type that browsers run', () => {
    const page = { contentType: 'text/html', body: '<script>alert(1)</script>' };
    const sent = { contentType: 'text/plain; charset=utf-8', body: page.body };
    expect(only({ webhookResponse: page })?.acceptedResponse).toEqual(sent);
  });

  it('knows the handshakes of the trigger’s publisher', () => {
    expect(only({ webhookSignatureScheme: 'Slack', webhookHmacKey: 'k' })?.handshakes.length).toBeGreaterThan(0);
    expect(only({ webhookSignatureScheme: 'GitHub', webhookHmacKey: 'k' })?.handshakes).toEqual([]);
  });
});

it.each([
  [{}, true],
  [{ webhookSignatureScheme: 'GitHub', webhookHmacKey: '7d5e0c9f41a86b23' }, true],
  [{ webhookSignatureScheme: 'GitHub' }, false],
  [{ webhookSignatureScheme: 'PayPal', webhookHmacKey: '8PT597110X687430LKGECATA' }, false],
  [{ webhookSignatureScheme: 'Acme' }, false],
] as const)('knows of %o whether sluice send can sign for it: %s', (inputs, canBeSigned) => {
  const verifier = { name: 'Acme', verify: () => ({ outcome: 'verified' as const }) };
  const settings = sampleSettings({ schemes: createSchemeRegistry({ verifiers: [verifier] }) });
  const [prepared] = createTriggerTable({
    flows: [deployedFlow({ webhooks: [sampleTrigger(inputs)] })],
    defaultMode: 'Enforce',
    preparer: gatePreparer(gateChain(), settings),
  }).list();
  expect(prepared?.canBeSigned).toBe(canBeSigned);
});
