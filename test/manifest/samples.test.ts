import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { stepTypes } from '../../src/config/steps.ts';
import { handlerTable } from '../../src/flows/handlers/index.ts';
import { formatIssue } from '../../src/manifest/issues.ts';
import { loadManifests } from '../../src/manifest/load.ts';
import { rules as testRules } from './rules.ts';

const rules = { ...testRules, handlers: handlerTable(stepTypes().handlers) };

const FOLDER = join(import.meta.dirname, '../../manifests');

describe('the sample manifests', () => {
  it('load with a warning for each demo key and nothing else', async () => {
    const { flows, issues } = await loadManifests(FOLDER, rules);
    expect(issues.map((issue) => formatIssue(issue).replace(`${FOLDER}/`, ''))).toEqual([
      expect.stringContaining(
        'warning github-push.json:12:27 triggers.github.inputs.webhookHmacKey: contains a secret',
      ),
      expect.stringContaining('warning payments.json:12:27 triggers.stripe.inputs.webhookHmacKey: contains a secret'),
    ]);
    expect(flows.map(({ manifest }) => manifest.name)).toEqual([
      'Approval',
      'Export',
      'GitHub push',
      'Nightly report',
      'Order',
      'Payments',
    ]);
    expect(flows.flatMap(({ webhooks }) => webhooks.map(({ inputs }) => inputs.webhookSlug))).toEqual([
      'github-push',
      'payments',
    ]);
  });

  it('keep their demo keys out of the snapshot', async () => {
    const { flows } = await loadManifests(FOLDER, rules);
    expect(JSON.stringify(flows.map(({ snapshot }) => snapshot))).not.toContain('demo');
  });
});
