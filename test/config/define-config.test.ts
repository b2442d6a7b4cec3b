import { expect, it } from 'vitest';
import { defineConfig } from '../../src/config/api.ts';
import { readSettings } from '../../src/config/settings.ts';

it('takes the options of the settings by name', () => {
  const config = defineConfig({ enforcementMode: 'Enforce', deliveryStore: 'memory', port: 4000 });
  expect(readSettings({}, { ...config })).toMatchObject({ enforcementMode: 'Enforce', deliveryStore: 'memory' });
});

it('does not compile with a value that is not in a list, which a start refuses too', () => {
  // @ts-expect-error: no such mode
  const mode = defineConfig({ enforcementMode: 'Enforced' });
  // @ts-expect-error: no such store
  const store = defineConfig({ deliveryStore: 'disk' });
  // @ts-expect-error: no such level
  const level = defineConfig({ logLevel: 'loud' });
  for (const config of [mode, store, level]) expect(() => readSettings({}, { ...config })).toThrow('is not accepted');
});
