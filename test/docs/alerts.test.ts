import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ALERT_KINDS, isAlertKind, readAlerts, TARGET_TYPES } from '../../src/features/alerts/targets.ts';
import { ATTENTION, ATTENTION_KINDS } from '../../src/model/attention.ts';

const page = readFileSync('docs/alerts.md', 'utf8');

describe('the page about alerts', () => {
  it('names each kind of the attention list with its usual severity, and each other kind of alert', () => {
    for (const kind of ATTENTION_KINDS.filter(isAlertKind)) {
      const row = page.split('\n').find((line) => line.startsWith(`| ${ATTENTION[kind]} | \``));
      expect(row).toContain(`\`${kind}\``);
    }
    for (const kind of ALERT_KINDS) expect(page).toContain(`\`${kind}\``);
    for (const type of TARGET_TYPES) expect(page).toContain(`\`${type}\``);
  });

  it('shows a file that is accepted', () => {
    const [, file = ''] = /```json\n(\{\n {2}"pageUrl".*?)```/s.exec(page) ?? [];
    const readSecret = (reference: string) => ({
      value: reference === 'env:ALERTS_SECRET' ? `whsec_${'A'.repeat(32)}` : 'https://example.com/hook',
    });
    expect(readAlerts(JSON.parse(file), readSecret)).toHaveProperty('alerts');
  });
});
