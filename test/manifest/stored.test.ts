import { describe, expect, it } from 'vitest';
import { stepTypes } from '../../src/config/steps.ts';
import { handlerTable } from '../../src/flows/handlers/index.ts';
import { withLiterals } from '../../src/manifest/literals.ts';
import { type LoadedFlow, type ManifestRules, parseManifest } from '../../src/manifest/load.ts';
import { type OpenedNeeds, storedFlow } from '../../src/manifest/stored.ts';
import { openedNeeds } from '../deploys/opened-needs.ts';

const rules: ManifestRules = {
  handlers: handlerTable(stepTypes().handlers),
  readSecret: (reference) =>
    reference === 'env:KEY' ? { value: 'from the environment' } : { error: `${reference} is not set` },
  strict: false,
  checks: [],
};

const call = (url: string, authorization = 'Bearer of the step') => ({
  type: 'HttpRequest',
  inputs: { url, headers: { authorization } },
});

function load(inputs: object, steps: object = {}): LoadedFlow {
  const triggers = { hook: { type: 'webhook', inputs: { webhookSignatureScheme: 'GitHub', ...inputs } } };
  const manifest = { id: '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10', name: 'orders', version: '1', triggers, steps };
  const { flow, issues } = parseManifest(JSON.stringify(manifest), 'orders.json', rules);
  if (flow === undefined) throw new Error(JSON.stringify(issues));
  return flow;
}

const NOTHING: OpenedNeeds = { files: {}, literals: new Map(), lost: [], signed: undefined };
const restore = (stored: LoadedFlow, opened: OpenedNeeds = NOTHING, change: Partial<ManifestRules> = {}) =>
  storedFlow({ ...stored, name: 'orders' }, { ...rules, ...change }, opened);
const keysOf = ({ flow }: ReturnType<typeof restore>) => flow.webhooks[0]?.keys;
const NO_KEYS = { current: undefined, previous: undefined };

describe('a stored revision', () => {
  it('reads its references again', () => {
    const restored = restore(load({ webhookHmacKey: 'env:KEY' }));
    expect(keysOf(restored)).toEqual({ current: 'from the environment', previous: undefined });
    expect(restored.problems).toEqual([]);
  });

  it('is not served if a reference cannot be read any more, and says so', () => {
    const { snapshot } = load({ webhookHmacKey: 'env:KEY' });
    const gone: Partial<ManifestRules> = { readSecret: () => ({ error: 'is not set' }) };
    const restored = storedFlow(
      { name: 'orders', snapshot, hash: 'h', source: 'folder' },
      { ...rules, ...gone },
      NOTHING,
    );
    expect(keysOf(restored)).toEqual(NO_KEYS);
    expect(restored.flow.unreadable).toBe('triggers.hook.inputs.webhookHmacKey: is not set');
    expect(restored.problems).toEqual([
      'orders triggers.hook.inputs.webhookHmacKey: is not set; no trigger of the flow is served',
    ]);
  });

  it('has the keys that were written out', () => {
    const stored = load({ webhookHmacKey: 'present', webhookHmacKeyPrevious: 'past' });
    expect(keysOf(restore(stored, openedNeeds(stored)))).toEqual({ current: 'present', previous: 'past' });
  });

  const lost = (...fields: string[]): OpenedNeeds => ({
    ...NOTHING,
    lost: fields.map((field) => `triggers.hook.inputs.${field}`),
  });

  it('has no key where it is lost, and says so', () => {
    const restored = restore(load({ webhookHmacKey: 'present' }), lost('webhookHmacKey'));
    expect(keysOf(restored)).toEqual(NO_KEYS);
    expect(restored.problems).toHaveLength(1);
    expect(restored.flow.lost).toEqual(['triggers.hook.inputs.webhookHmacKey']);
  });

  describe('with several keys in force', () => {
    const stored = load({ webhookHmacKey: ['present', 'env:KEY', 'another'] });

    it('has those that were written out, and reads the others again', () => {
      const keys = { current: 'present', previous: undefined, others: ['from the environment', 'another'] };
      expect(keysOf(restore(stored, openedNeeds(stored)))).toEqual(keys);
      expect(JSON.stringify(stored.snapshot)).not.toMatch(/present|another/);
    });

    it('goes on with the keys that it has where others are lost, and never uses a mask', () => {
      const restored = restore(stored);
      expect(keysOf(restored)).toEqual({ current: 'from the environment', previous: undefined });
      expect(restored.flow.lost).toEqual([0, 2].map((at) => `triggers.hook.inputs.webhookHmacKey[${at}]`));
    });

    it('is served where its references have come to be one key', () => {
      const read: Partial<ManifestRules> = { readSecret: () => ({ value: 'another' }) };
      const restored = restore(stored, openedNeeds(stored), read);
      expect(keysOf(restored)).toEqual({ current: 'present', previous: undefined, others: ['another'] });
      expect(restored.flow.unreadable).toBeUndefined();
    });
  });

  it('lets no legacy key step in for one that was lost', () => {
    const stored = load({ webhookHmacKey: 'present', webhookSecret: 'env:KEY' });
    expect(keysOf(restore(stored, lost('webhookHmacKey')))).toEqual(NO_KEYS);
  });

  it('never uses the mask as a key', () => {
    const restored = restore(load({ webhookHmacKey: 'present' }), lost('webhookHmacKey'));
    expect(JSON.stringify(restored.flow.webhooks)).not.toContain('***');
  });

  it.each(['webhookHmacKey', 'webhookSecret', 'webhookHmacKeyPrevious'])(
    'has no key where nothing says what its mask in %s stands for',
    (field) => {
      const restored = restore(load({ [field]: 'present' }));
      expect(keysOf(restored)).toEqual(NO_KEYS);
      expect(restored.flow.lost).toEqual([`triggers.hook.inputs.${field}`]);
    },
  );

  const urlOf = ({ flow }: ReturnType<typeof restore>) => flow.webhooks[0]?.inputs.webhookPublicUrl;
  const withUrl = (webhookPublicUrl: string) => load({ webhookHmacKey: 'env:KEY', webhookPublicUrl });

  it('holds no user information and no query of its public URL, and has them from what was stored besides', () => {
    const stored = withUrl('https://u:hunter2@a.example/in?token=hunter3');
    expect(JSON.stringify(stored.snapshot)).not.toContain('hunter');
    expect(urlOf(restore(stored, openedNeeds(stored)))).toBe('https://u:hunter2@a.example/in?token=hunter3');
  });

  it('verifies nothing over a public URL that was not kept, and says so', () => {
    const restored = restore(withUrl('https://u:hunter2@a.example/in?token=hunter3'), lost('webhookPublicUrl'));
    expect(urlOf(restored)).toBe('https://***@a.example/in?token=***');
    expect(restored.problems).toContainEqual(expect.stringContaining('webhookPublicUrl: contains the mask'));
  });

  it('reads a public URL that is a reference again, and shows the reference', () => {
    const url = 'https://u:hunter2@a.example/in?token=hunter3';
    const readSecret = (reference: string) => ({ value: reference === 'env:URL' ? url : 'key' });
    const manifest = { triggers: { hook: { type: 'webhook', inputs: { webhookPublicUrl: 'env:URL' } } } };
    const text = JSON.stringify({ id: '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10', version: '1', steps: {}, ...manifest });
    const { flow: stored } = parseManifest(text, 'orders.json', { ...rules, readSecret });
    if (stored === undefined) throw new Error('does not load');
    expect(stored.webhooks[0]?.inputs.webhookPublicUrl).toBe(url);
    expect(stored.snapshot).toMatchObject(manifest);
    expect(urlOf(restore(stored, NOTHING, { readSecret }))).toBe(url);
  });

  it('has the secrets of its steps', () => {
    const stored = load({}, { same: call('https://a.example') });
    const { steps } = restore(stored, openedNeeds(stored)).flow.manifest;
    expect(steps.same?.inputs.headers).toEqual({ authorization: 'Bearer of the step' });
    expect(restore(stored).flow.manifest.steps.same?.inputs.headers).toEqual({ authorization: '***' });
  });

  it('judges bodies by the schema that was stored, whatever its file is now', () => {
    const schemaOf = (text: string): Partial<ManifestRules> => ({ readSecret: () => ({ value: text }) });
    const [strict, loose] = [schemaOf('{"required":["id"]}'), schemaOf('{}')];
    const triggers = { hook: { type: 'webhook', inputs: { webhookBodySchema: 'file:schema.json' } } };
    const text = JSON.stringify({ id: '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10', version: '1', steps: {}, triggers });
    const read = (change: Partial<ManifestRules>) => parseManifest(text, 'orders.json', { ...rules, ...change }).flow;
    const [stored, now] = [read(strict), read(loose)];
    if (stored === undefined || now === undefined) throw new Error('does not load');
    expect(stored.snapshot).toEqual(now.snapshot);
    expect(stored.hash).not.toBe(now.hash);
    const { flow } = restore(stored, openedNeeds(stored), loose);
    expect(flow.webhooks[0]?.bodySchema).toMatchObject({ text: '{"required":["id"]}' });
    expect(flow.hash).toBe(stored.hash);
  });

  it('does not serve a trigger whose gates cannot be built', () => {
    const checks: ManifestRules['checks'] = [
      () => [{ severity: 'error', path: 'triggers.hook', message: 'names a preset that is gone' }],
    ];
    const restored = restore(load({ webhookHmacKey: 'env:KEY', webhookSlug: 'in' }), NOTHING, { checks });
    expect(restored.flow.webhooks).toEqual([]);
    expect(restored.flow.unserved).toEqual([{ triggerKey: 'hook', slug: 'in', why: 'names a preset that is gone' }]);
    expect(restored.problems).toEqual(['orders triggers.hook: names a preset that is gone; the trigger is not served']);
  });

  it('does not serve a trigger with a weak gate where manifests are read strictly', () => {
    const checks: ManifestRules['checks'] = [
      () => [{ severity: 'warning', path: 'triggers.hook', message: 'is weak', weakensGate: true }],
    ];
    const stored = load({ webhookHmacKey: 'env:KEY' });
    expect(restore(stored, NOTHING, { checks, strict: true }).flow.webhooks).toEqual([]);
    expect(restore(stored, NOTHING, { checks }).flow.webhooks).toHaveLength(1);
  });

  it('does not serve a trigger whose scheme has left with the operator’s code', () => {
    const checks: ManifestRules['checks'] = [
      () => [{ severity: 'warning', path: 'triggers.hook', message: 'is unknown', weakensGate: true, skipsGate: true }],
    ];
    const told = (signed: readonly string[] | undefined) => {
      const { flow, problems } = restore(load({ webhookHmacKey: 'env:KEY' }), { ...NOTHING, signed }, { checks });
      return [flow.webhooks.length, ...problems];
    };
    // Known, not said, and never known.
    expect(told(['hook'])).toEqual([0, 'orders triggers.hook: is unknown; the trigger is not served']);
    expect(told(undefined)).toEqual(told(['hook']));
    expect(told([])).toEqual([1, 'orders triggers.hook: is unknown']);
  });

  it('does not serve a trigger with a reference that its source may not read, and says which', () => {
    const readSecret: ManifestRules['readSecret'] = () => ({ error: 'env:KEY may not be read', isForbidden: true });
    const { flow } = restore(load({ webhookHmacKey: 'env:KEY' }), NOTHING, { readSecret });
    expect(flow.webhooks).toEqual([]);
    expect(flow.unserved).toEqual([{ triggerKey: 'hook', slug: undefined, why: 'env:KEY may not be read' }]);
  });

  it('is shown as it was stored', () => {
    const stored = load({ webhookHmacKey: 'present' });
    const { flow } = restore(stored, openedNeeds(stored));
    expect(flow.snapshot).toEqual(stored.snapshot);
    expect(flow.hash).toBe(stored.hash);
  });
});

it('a snapshot with its secrets in place is the manifest that it was', () => {
  const stored = load(
    { webhookHmacKey: 'written', webhookPublicUrl: 'https://hooks.example.com/in?token=t' },
    { call: call('https://api.example.com/?key=abcdef') },
  );
  const { literals } = openedNeeds(stored);
  expect([...literals.keys()]).toEqual([
    'triggers.hook.inputs.webhookHmacKey',
    'triggers.hook.inputs.webhookPublicUrl',
    'steps.call.inputs.url',
    'steps.call.inputs.headers.authorization',
  ]);
  expect(JSON.stringify(stored.snapshot)).not.toMatch(/written|token=t|abcdef|Bearer/);
  expect(withLiterals(stored.snapshot as object, literals)).toEqual(stored.manifest);
});
