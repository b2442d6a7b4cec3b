import { describe, expect, it } from 'vitest';
import { builtInHandlers, handlerTable } from '../../src/flows/handlers/index.ts';
import { type LoadedFlow, type ManifestRules, parseManifest } from '../../src/manifest/load.ts';
import { shownSnapshot } from '../../src/manifest/secrets.ts';
import { storedFlow, storedManifest } from '../../src/manifest/stored.ts';

const rules: ManifestRules = {
  handlers: handlerTable(builtInHandlers({ egressAllow: [] })),
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

const restore = (stored: LoadedFlow, other?: LoadedFlow, change: Partial<ManifestRules> = {}) =>
  storedFlow({ ...stored, name: 'orders' }, { ...rules, ...change }, other);
const keysOf = ({ flow }: ReturnType<typeof restore>) => flow.webhooks[0]?.keys;
const NO_KEYS = { current: undefined, previous: undefined };

describe('a stored revision', () => {
  it('reads its references again', () => {
    const restored = restore(load({ webhookHmacKey: 'env:KEY' }));
    expect(keysOf(restored)).toEqual({ current: 'from the environment', previous: undefined });
    expect(restored.problems).toEqual([]);
  });

  it('has no key if its reference cannot be read any more, and says so', () => {
    const { snapshot } = load({ webhookHmacKey: 'env:KEY' });
    const gone: Partial<ManifestRules> = { readSecret: () => ({ error: 'is not set' }) };
    const restored = storedFlow(
      { name: 'orders', snapshot, hash: 'h', source: 'folder' },
      { ...rules, ...gone },
      undefined,
    );
    expect(keysOf(restored)).toEqual(NO_KEYS);
    expect(restored.problems).toEqual(['orders triggers.hook.inputs.webhookHmacKey: is not set']);
  });

  it('takes keys that were written out from the same fields of another manifest', () => {
    const keys = { webhookHmacKey: 'present', webhookHmacKeyPrevious: 'past' };
    expect(keysOf(restore(load(keys), load(keys)))).toEqual({ current: 'present', previous: 'past' });
  });

  it.each([
    ['no manifest', undefined],
    ['a manifest with the key under its other name', load({ webhookSecret: 'elsewhere' })],
  ])('has no key with %s', (_name, other) => {
    const restored = restore(load({ webhookHmacKey: 'present' }), other);
    expect(keysOf(restored)).toEqual(NO_KEYS);
    expect(restored.problems).toHaveLength(1);
  });

  it('lets no legacy key step in for one that was lost', () => {
    const stored = load({ webhookHmacKey: 'present', webhookSecret: 'env:KEY' });
    expect(keysOf(restore(stored))).toEqual(NO_KEYS);
  });

  it('never uses the mask as a key', () => {
    const restored = restore(load({ webhookHmacKey: 'present' }));
    expect(JSON.stringify(restored.flow.webhooks)).not.toContain('***');
  });

  const urlOf = ({ flow }: ReturnType<typeof restore>) => flow.webhooks[0]?.inputs.webhookPublicUrl;
  const withUrl = (webhookPublicUrl: string) => load({ webhookHmacKey: 'env:KEY', webhookPublicUrl });

  it('holds no user information and no query of its public URL, and takes them from the same URL elsewhere', () => {
    const stored = withUrl('https://u:hunter2@a.example/in?token=hunter3');
    expect(JSON.stringify(stored.snapshot)).not.toContain('hunter');
    expect(urlOf(restore(stored, stored))).toBe('https://u:hunter2@a.example/in?token=hunter3');
  });

  it.each([undefined, withUrl('https://u:hunter2@b.example/in?token=hunter3')])(
    'verifies nothing over a public URL that was not kept, and says so',
    (other) => {
      const restored = restore(withUrl('https://u:hunter2@a.example/in?token=hunter3'), other);
      expect(urlOf(restored)).toBe('https://***@a.example/in?token=***');
      expect(restored.problems).toEqual([expect.stringContaining('webhookPublicUrl: contains the mask')]);
    },
  );

  it('still works if an early release stored its whole public URL, and is shown with the URL masked', () => {
    const stored = withUrl('https://a.example/in');
    const url = 'https://u:hunter2@a.example/in?token=hunter3';
    const snapshot = JSON.parse(JSON.stringify(stored.snapshot).replace('https://a.example/in', url));
    expect(urlOf(restore({ ...stored, snapshot }))).toBe(url);
    const masked = JSON.stringify(stored.snapshot).replace(
      'https://a.example/in',
      'https://***@a.example/in?token=***',
    );
    expect(JSON.stringify(shownSnapshot(snapshot))).toBe(masked);
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
    expect(urlOf(restore(stored, undefined, { readSecret }))).toBe(url);
  });

  it('takes the secrets of a step only from the same step: another address must not get them', () => {
    const stored = load({}, { same: call('https://a.example'), moved: call('https://old.example') });
    const other = load(
      {},
      { same: call('https://a.example'), moved: call('https://new.example', 'Bearer of the new') },
    );
    const { steps } = restore(stored, other).flow.manifest;
    expect(steps.same?.inputs.headers).toEqual({ authorization: 'Bearer of the step' });
    expect(steps.moved?.inputs).toEqual({ url: 'https://old.example', headers: { authorization: '***' } });
  });

  it('does not serve a trigger whose gates cannot be built', () => {
    const checks: ManifestRules['checks'] = [
      () => [{ severity: 'error', path: 'triggers.hook', message: 'names a preset that is gone' }],
    ];
    const restored = restore(load({ webhookHmacKey: 'env:KEY' }), undefined, { checks });
    expect(restored.flow.webhooks).toEqual([]);
    expect(restored.problems).toEqual(['orders triggers.hook: names a preset that is gone; the trigger is not served']);
  });

  it('does not serve a trigger with a weak gate where manifests are read strictly', () => {
    const checks: ManifestRules['checks'] = [
      () => [{ severity: 'warning', path: 'triggers.hook', message: 'is weak', weakensGate: true }],
    ];
    const stored = load({ webhookHmacKey: 'env:KEY' });
    expect(restore(stored, undefined, { checks, strict: true }).flow.webhooks).toEqual([]);
    expect(restore(stored, undefined, { checks }).flow.webhooks).toHaveLength(1);
  });

  it('does not serve a trigger whose scheme has left with the operator’s code', () => {
    const checks: ManifestRules['checks'] = [
      () => [{ severity: 'warning', path: 'triggers.hook', message: 'is unknown', weakensGate: true, skipsGate: true }],
    ];
    expect(restore(load({ webhookHmacKey: 'env:KEY' }), undefined, { checks }).flow.webhooks).toEqual([]);
  });

  it('is shown as it was stored', () => {
    const stored = load({ webhookHmacKey: 'present' });
    const { flow } = restore(stored, stored);
    expect(flow.snapshot).toEqual(stored.snapshot);
    expect(flow.hash).toBe(stored.hash);
  });
});

describe('a stored revision as a manifest to deploy again', () => {
  const lostOf = (stored: LoadedFlow, other?: LoadedFlow) =>
    storedManifest(stored.snapshot, rules, other).lost.map((path) => path.join('.'));

  it('is the manifest that it was, as long as the same secrets are in force', () => {
    const stored = load(
      { webhookHmacKey: 'written', webhookPublicUrl: 'https://hooks.example.com/in?token=t' },
      { call: call('https://api.example.com/?key=abcdef') },
    );
    expect(storedManifest(stored.snapshot, rules, stored)).toEqual({ manifest: stored.manifest, lost: [] });
  });

  it('needs nothing where it has references alone', () => {
    const stored = load({ webhookHmacKey: 'env:KEY' }, { call: call('https://api.example.com', 'env:KEY') });
    expect(storedManifest(stored.snapshot, rules, undefined)).toEqual({ manifest: stored.manifest, lost: [] });
  });

  it('names each secret that is not in force', () => {
    const stored = load(
      { webhookHmacKey: 'written', webhookPublicUrl: 'https://hooks.example.com/in?token=t' },
      { call: call('https://api.example.com') },
    );
    const changed = load({ webhookHmacKey: '' }, { call: call('https://elsewhere.example.com') });
    const places = [
      'triggers.hook.inputs.webhookHmacKey',
      'triggers.hook.inputs.webhookPublicUrl',
      'steps.call.inputs.headers.authorization',
    ];
    expect(lostOf(stored)).toEqual(places);
    expect(lostOf(stored, changed)).toEqual(places);
  });

  it('counts a key that was lost in the manifest in force as lost', () => {
    const stored = load({ webhookHmacKey: 'written' });
    expect(lostOf(stored, restore(stored).flow)).toEqual(['triggers.hook.inputs.webhookHmacKey']);
  });
});
