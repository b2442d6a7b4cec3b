import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readSettings, SettingsError } from '../../../src/config/settings.ts';
import { ALERT_KINDS, readAlerts } from '../../../src/features/alerts/targets.ts';
import { secretReader } from '../../../src/manifest/read-secret.ts';
import { temporaryFolder } from '../../temporary.ts';

const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
const env = { SLACK: 'https://hooks.example.com/services/T0/B0/canary-path', SECRET };
const readSecret = secretReader({ env, baseFolder: '/' });
const mail = { type: 'smtp', host: 'mail.example.com', from: 'sluice@example.com', to: ['ops@example.com'] };

const linesOf = (targets: object, more: object = {}) => {
  const read = readAlerts({ targets, ...more }, readSecret);
  return 'lines' in read ? read.lines : [];
};

describe('a file of alerts', () => {
  it('keeps references as they are, and takes defaults', () => {
    const read = readAlerts(
      { targets: { ops: { type: 'slack', url: 'env:SLACK' } }, pageUrl: 'https://a.example/' },
      readSecret,
    );
    expect(read).toEqual({
      alerts: {
        pageUrl: 'https://a.example',
        repeatSeconds: 3600,
        targets: [
          {
            name: 'ops',
            type: 'slack',
            url: 'env:SLACK',
            kinds: ALERT_KINDS,
            severities: ['error', 'warning'],
            intervalSeconds: 60,
          },
        ],
      },
    });
  });

  it.each<[string, object, string[]]>([
    [
      'an unknown type',
      { a: { type: 'slak', url: 'env:SLACK' } },
      ['targets.a.type is not one of slack, teams, discord, json, pagerduty, opsgenie, smtp'],
    ],
    [
      'no type',
      { a: { url: 'env:SLACK' } },
      ['targets.a.type is missing; expected one of slack, teams, discord, json, pagerduty, opsgenie, smtp'],
    ],
    [
      'a name with a space',
      { 'a b': { type: 'slack', url: 'env:SLACK' } },
      ['targets.a b is not a name of 1 to 64 letters, digits or any of ._-'],
    ],
    [
      'an unknown field',
      { a: { type: 'slack', url: 'env:SLACK', kind: [] } },
      ['targets.a.kind is not known here; did you mean "kinds"?'],
    ],
    [
      'a field of another type',
      { a: { type: 'slack', url: 'env:SLACK', host: 'mail.example.com' } },
      ['targets.a.host is not known here; known are type, flows, kinds, severities, intervalSeconds, url'],
    ],
    ['no kinds', { a: { type: 'slack', url: 'env:SLACK', kinds: [] } }, ['targets.a.kinds is empty']],
    [
      'an unknown kind',
      { a: { type: 'slack', url: 'env:SLACK', kinds: ['run.fail'] } },
      [
        expect.stringMatching(
          /^targets\.a\.kinds\.0 is not one of attention, run\.failed, .*; did you mean "run\.failed"\?$/,
        ),
      ],
    ],
    [
      'what another alert tells of',
      { a: { type: 'slack', url: 'env:SLACK', kinds: ['failed_runs'] } },
      [expect.stringContaining('targets.a.kinds.0 is not one of ')],
    ],
    [
      'notes to a pager',
      { a: { type: 'pagerduty', routingKey: 'canary', severities: ['info'] } },
      ['targets.a.severities.0 is not one of error, warning'],
    ],
    ['no key of a pager', { a: { type: 'opsgenie' } }, [expect.stringMatching(/^targets\.a\.apiKey /)]],
    [
      'two names of the same field',
      { a: { type: 'slack', url: 'env:SLACK', kinds: ['run.failed'], events: ['run.failed'] } },
      [expect.stringContaining('targets.a.events is not known here')],
    ],
    [
      'a variable that is not set',
      { a: { type: 'teams', url: 'env:NONE' } },
      ['targets.a.url: the environment variable NONE is not set'],
    ],
    ['a URL of another kind', { a: { type: 'discord', url: 'ftp://x' } }, ['targets.a.url: is not an http(s) URL']],
    [
      'credentials in a URL',
      { a: { type: 'slack', url: 'https://u:canary@x.example' } },
      ['targets.a.url: contains a user name or password, which would not be sent'],
    ],
    [
      'a secret of another form',
      { a: { type: 'json', url: 'https://x.example', secret: 'canary' } },
      ['targets.a.secret: is not a Standard Webhooks secret: whsec_ and the base64 of 24 to 64 random bytes'],
    ],
    [
      'a user without a password',
      { a: { ...mail, user: 'me' } },
      ['targets.a.user: set user and password, or neither'],
    ],
    [
      'a password in plain text',
      { a: { ...mail, user: 'me', password: 'canary', security: 'none' } },
      ['targets.a.security: none would send the password in plain text; use starttls or tls'],
    ],
    ['no addressee', { a: { ...mail, to: [] } }, ['targets.a.to is empty']],
    ['a name with blanks', { 'a b': { type: 'slack', url: 'env:SLACK' } }, [expect.stringContaining('targets.a b')]],
    [
      'a name that would be lost',
      JSON.parse('{"__proto__": {"type": "slack", "url": "env:SLACK"}}'),
      ['targets.__proto__ is not a name of 1 to 64 letters, digits or any of ._-'],
    ],
  ])('is refused for %s, without quoting a secret', (_what, targets, lines) => {
    const found = linesOf(targets);
    expect(found).toEqual(lines);
    expect(found.join()).not.toContain('canary');
  });

  it('takes kinds by their earlier name, and all of the attention list by one', () => {
    const read = readAlerts(
      { targets: { ops: { type: 'slack', url: 'env:SLACK', events: ['attention'] } } },
      readSecret,
    );
    const [{ kinds = [] } = {}] = 'alerts' in read ? read.alerts.targets : [];
    expect(kinds).toContain('schedule_overdue');
    expect(kinds).not.toContain('run.failed');
  });

  it('calls nobody for notes, nor for a deploy that was let through', () => {
    const targets = { one: { type: 'pagerduty', routingKey: 'x' }, other: { type: 'opsgenie', apiKey: 'x' } };
    const read = readAlerts({ targets }, readSecret);
    for (const { kinds, severities } of 'alerts' in read ? read.alerts.targets : []) {
      expect(severities).toEqual(['error', 'warning']);
      expect(ALERT_KINDS.filter((kind) => !kinds.includes(kind))).toEqual(['access.widened']);
    }
  });

  it('is named by SLUICE_ALERTS, and a mistake in it stops the start', async () => {
    const folder = temporaryFolder('alerts');
    const file = join(folder, 'alerts.json');
    await writeFile(file, JSON.stringify({ targets: { ops: { type: 'slack', url: 'env:SLACK' } } }));
    expect(readSettings({ ...env, SLUICE_ALERTS: file }).alerts?.targets).toMatchObject([{ name: 'ops' }]);
    expect(readSettings({ SLUICE_ALERTS: '' }).alerts).toBeUndefined();
    expect(readSettings({}, { alerts: { targets: {} } }).alerts).toMatchObject({ targets: [] });
    for (const [content, problem] of [
      ['{', `SLUICE_ALERTS: the file ${file} is not JSON`],
      ['{"targets":{},"targets":{}}', `SLUICE_ALERTS: targets is given twice, again on line 1 in the file ${file}`],
      ['[]', 'SLUICE_ALERTS: the file is an array; an object is accepted'],
    ] as const) {
      await writeFile(file, content);
      const start = () => readSettings({ SLUICE_ALERTS: file });
      expect(start).toThrow(SettingsError);
      expect(start).toThrow(problem);
    }
  });
});
