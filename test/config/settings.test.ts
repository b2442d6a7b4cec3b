import { describe, expect, it } from 'vitest';
import { readSettings, retiredSettings, settingsWarnings, tracingSettings } from '../../src/config/settings.ts';
import { describeSettings } from '../../src/config/settings-schema.ts';
import { linesOf as linesOfReading } from './lines.ts';

const linesOf = (environment: Record<string, string>, config: Record<string, unknown> = {}) =>
  linesOfReading(() => readSettings(environment, config));

describe('settings', () => {
  it('have safe defaults for everything', () => {
    expect(readSettings({})).toMatchObject({
      host: '127.0.0.1',
      port: 3000,
      databaseUrl: 'sqlite:data/sluice.db',
      manifests: 'manifests',
      enforcementMode: 'Off',
      maxBodyBytes: 1_048_576,
      forwardedHeaderDepth: 0,
      trustedProxies: [],
      nonceTtlSeconds: 86_400,
      allowLegacySha1: false,
      strictManifests: false,
    });
  });

  it.each([
    ['SLUICE_PORT', 'abc', 'port'],
    ['SLUICE_PORT', '65536', 'port'],
    ['SLUICE_PORT', '-1', 'port'],
    ['SLUICE_PORT', '', 'port'],
    ['SLUICE_ENFORCEMENT_MODE', 'Enforced', 'mode'],
    ['SLUICE_ENFORCEMENT_MODE', '', 'mode'],
    ['SLUICE_MAX_BODY_BYTES', '1MB', 'cap'],
    ['SLUICE_MAX_BODY_BYTES', '0', 'cap'],
    ['SLUICE_FORWARDED_HEADER_DEPTH', '1.5', 'depth'],
    ['SLUICE_TRUSTED_PROXIES', '10.0.0.0/33', 'proxies'],
    ['SLUICE_TRUSTED_PROXIES', '10.1', 'proxies'],
    ['SLUICE_TRUSTED_PROXIES', '10.0.0.1,,10.0.0.2', 'proxies'],
    ['SLUICE_PUBLIC_URL', 'hooks.example.com', 'url'],
    ['SLUICE_ALLOW_LEGACY_SHA1', 'yes', 'switch'],
    ['SLUICE_RATE_LIMIT_PERMITS_PER_SECOND', '0', 'rate'],
    ['SLUICE_RATE_LIMIT_PER_IP', 'maybe', 'rate'],
    ['SLUICE_DATABASE_URL', 'mysql://x', 'database'],
    ['SLUICE_EGRESS_ALLOW', 'http://internal', 'egress'],
    ['SLUICE_OUTGOING_HOSTS', 'a=10/s,b=10', 'outgoing'],
    ['SLUICE_CIRCUIT_FAILURES', '-1', 'circuit'],
    ['SLUICE_DELIVERY_RETENTION_DAYS', '0', 'days'],
    ['SLUICE_LOG_LEVEL', 'loud', 'level'],
    ['SLUICE_DASHBOARD_AUTH', 'off', 'auth'],
  ])('refuse %s=%s with one line that names the variable, the value and what is accepted', (variable, value) => {
    const lines = linesOf({ [variable]: value });
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(
      new RegExp(
        `^${variable}: ${JSON.stringify(value).replace(/[.*+?^${}()|[\]\\/]/g, '\\$&')} is not accepted; expected .+`,
      ),
    );
  });

  it.each([
    ['SLUICE_RATE_LIMIT_PERMITS_PER_SECOND', '2000000', 'a number above 0 and at most 1000000, fractions allowed'],
    ['SLUICE_RATE_LIMIT_BURST_SIZE', '1000001', 'an integer from 1 to 1000000'],
    ['SLUICE_REPLAY_TOLERANCE_SECONDS', '31536001', 'an integer from 0 to 31536000, in seconds; 0 for no check'],
    [
      'SLUICE_NONCE_TTL_SECONDS',
      '99999999',
      'an integer from 1 to 31536000, in seconds, and no less than any tolerance',
    ],
    ['SLUICE_CIRCUIT_FAILURES', '1001', 'an integer from 0 to 1000; 0 never stops calling a host'],
  ])('name the upper bound that %s=%s exceeds', (variable, value, accepted) => {
    expect(linesOf({ [variable]: value })).toEqual([
      `${variable}: ${JSON.stringify(value)} is not accepted; expected ${accepted}`,
    ]);
  });

  it('report every mistake at once', () => {
    expect(linesOf({ SLUICE_PORT: 'x', SLUICE_MAX_BODY_BYTES: 'y', SLUICE_ENFORCEMENT_MODE: 'z' })).toHaveLength(3);
  });

  it('report those that only a right value can have next to wrong values, and quote no secret', () => {
    const lines = linesOf({
      SLUICE_PORT: 'x',
      SLUICE_DASHBOARD_USER: 'a:b',
      SLUICE_DASHBOARD_PASSWORD: 'env:NOWHERE',
      SLUICE_EVIDENCE_KEY: 's3cr3t',
      SLUICE_REPLAY_TOLERANCE_SECONDS: '90000',
      SLUICE_DATABASE_URL: 'postgres://user:s3cr3t@db.example/x',
      'SLUICE_VAR_a-b': 's3cr3t',
      SLUICE_VAR_LONG: 'x'.repeat(4097),
    });
    const expected =
      'is not accepted; expected a text of at most 4096 characters, under a name of at most 64 letters, digits and ' +
      'underscores that begins with no digit, such as SLUICE_VAR_REGION=eu';
    expect(lines).toEqual([
      expect.stringMatching(/^SLUICE_DASHBOARD_PASSWORD: .*NOWHERE/),
      'SLUICE_PORT: "x" is not accepted; expected an integer from 0 to 65535; 0 takes any free port',
      `SLUICE_VAR_a-b: ${expected}`,
      `SLUICE_VAR_LONG: ${expected}`,
      expect.stringMatching(/^SLUICE_NONCE_TTL_SECONDS: 86400 is shorter than SLUICE_REPLAY_TOLERANCE_SECONDS=90000/),
      expect.stringMatching(/^SLUICE_DATABASE_URL: leads to another machine without TLS/),
      'SLUICE_DASHBOARD_USER: a colon ends the name in HTTP Basic; choose a name without one',
      expect.stringMatching(/^SLUICE_EVIDENCE_KEY: is not an Ed25519 private key/),
    ]);
    expect(lines.join()).not.toContain('s3cr3t');
    expect(linesOf({}, { vars: { 'a-b': 1 } })).toEqual([`vars.a-b (config module): ${expected}`]);
  });

  it.each<[Record<string, string>, string]>([
    [{ SLUICE_NONCE_TTL_SECONDS: 'x', SLUICE_REPLAY_TOLERANCE_SECONDS: '90000' }, 'SLUICE_NONCE_TTL_SECONDS: "x"'],
    [{ SLUICE_HOST: '0.0.0.0', SLUICE_DASHBOARD_TOKEN: '' }, 'SLUICE_DASHBOARD_TOKEN: the value is not accepted'],
    [{ SLUICE_HOST: '0.0.0.0', SLUICE_TOKENS: '/nowhere' }, 'SLUICE_TOKENS: '],
    [{ SLUICE_EVIDENCE_KEY: 'env:NOWHERE' }, 'SLUICE_EVIDENCE_KEY: '],
    [{ SLUICE_DATABASE_DIRECT_URL: 'postgres://x/y', SLUICE_DATABASE_URL: 'z' }, 'SLUICE_DATABASE_URL: "z"'],
  ])('say nothing about what a wrong value decides: %o', (environment, line) => {
    expect(linesOf(environment)).toEqual([expect.stringContaining(line)]);
  });

  it('refuse a misspelt variable, because the setting it meant would stay at its default unseen', () => {
    expect(linesOf({ SLUICE_ENFORCMENT_MODE: 'Enforce' })).toEqual([
      'SLUICE_ENFORCMENT_MODE: no such setting; did you mean "SLUICE_ENFORCEMENT_MODE"?',
    ]);
  });

  it.each(['sluice_enforcement_mode', 'Sluice_Enforcement_Mode', 'SLUICE_enforcement_MODE', 'sLUICE_ENFORCMENT_MODE'])(
    'refuse %s as they refuse a misspelt variable: nothing would read it',
    (name) => {
      const line = `${name}: no such setting; did you mean "SLUICE_ENFORCEMENT_MODE"?`;
      expect(linesOf({ [name]: 'Enforce' })).toEqual([line]);
      expect(linesOf({ [name]: 'Enforce', SLUICE_ENFORCEMENT_MODE: 'Enforce' })).toEqual([line]);
    },
  );

  it('take a variable in any case where the environment knows none, as on Windows', () => {
    const environment = new Proxy<Record<string, string>>(
      { Sluice_Enforcement_Mode: 'Enforce' },
      { get: (target, name) => Object.entries(target).find(([key]) => sameName(key, String(name)))?.[1] },
    );
    expect(readSettings(environment).enforcementMode).toBe('Enforce');
    const misspelt = new Proxy<Record<string, string>>(
      { sluice_enforcment_mode: 'Enforce' },
      { get: (target, name) => Object.entries(target).find(([key]) => sameName(key, String(name)))?.[1] },
    );
    expect(() => readSettings(misspelt)).toThrow('sluice_enforcment_mode: no such setting');
  });

  it('refuse a misspelt option of the config module', () => {
    expect(linesOf({}, { enforcmentMode: 'Enforce' })).toEqual([
      'enforcmentMode (config module): no such option; did you mean "enforcementMode"?',
    ]);
  });

  it.each([
    ['databasePrepare', 'SLUICE_DATABASE_PREPARE'],
    ['refusedDeliveryRows', 'SLUICE_REFUSED_DELIVERY_ROWS'],
    ['refusedDeliveryBytes', 'SLUICE_REFUSED_DELIVERY_BYTES'],
    ['heldDeliveryRows', 'SLUICE_HELD_DELIVERY_ROWS'],
    ['heldDeliveryBytes', 'SLUICE_HELD_DELIVERY_BYTES'],
    ['maxBacklog', 'SLUICE_MAX_BACKLOG'],
    ['manifestsWin', 'SLUICE_MANIFESTS_WIN'],
    ['watchManifests', 'SLUICE_WATCH_MANIFESTS'],
    ['traceparent', 'SLUICE_TRACEPARENT'],
  ])('ignore %s and %s, which were settings once, whatever they hold, and tell it', (name, variable) => {
    expect(readSettings({ [variable]: 'nonsense' }, { [name]: 'nonsense' })).toEqual(readSettings({}));
    expect(retiredSettings({ [variable]: 'nonsense' }, { [name]: 'nonsense' })).toEqual([
      expect.stringContaining(`${variable} is no longer a setting and is ignored: `),
      expect.stringContaining(`${name} (config module) is no longer a setting and is ignored: `),
    ]);
  });

  it('tell nothing of names that are not set', () => {
    expect(retiredSettings({ SLUICE_PORT: '1' }, { port: 1 })).toEqual([]);
  });

  it('never print the value of a secret', () => {
    const config = { storeKey: 4711, dashboardToken: ['hunter2'], dashboardUser: ['hunter2'] };
    const lines = linesOf({ SLUICE_DASHBOARD_PASSWORD: '' }, config);
    expect(lines).toHaveLength(4);
    expect(lines.join()).not.toMatch(/4711|hunter2/);
  });

  it.each([
    ['SLUICE_DATABASE_URL', 'mysql://sluice:hunter2@db.example/sluice', 'mysql://***@db.example/sluice'],
    ['SLUICE_DATABASE_URL', 'postgres://u:hunter2/x?y#z@w@db.example:5432/x', 'postgres://***@db.example:5432/x'],
    [
      'SLUICE_DATABASE_URL',
      'mysql://db.example/x?user=u&password=hunter2',
      'mysql://db.example/x?user=***&password=***',
    ],
    ['SLUICE_DATABASE_URL', 'u:hunter2@db.example', '***@db.example'],
    ['SLUICE_DATABASE_URL', 'postgres:hunter2', 'postgres:***'],
    ['SLUICE_DATABASE_URL', 'postgres://u:hunter2', 'postgres://u:***'],
    ['SLUICE_PUBLIC_URL', 'https://u:hunter2@hooks.example.com/?a=1', 'https://***@hooks.example.com/?a=***'],
    ['SLUICE_PUBLIC_URL', 'https://hooks.example.com/?hunter2', 'https://hooks.example.com/?***'],
    ['SLUICE_PUBLIC_URL', 'hooks.example.com:3000#hunter2', 'hooks.example.com:3000#***'],
    ['SLUICE_EGRESS_ALLOW', 'https://u:hunter2@internal', 'https://***@internal'],
    ['SLUICE_OUTGOING_HOSTS', 'https://a/?token=hunter2', 'https://a/?token=***'],
    ['SLUICE_OUTGOING_HOSTS', 'https://a:hunter2/', 'https://a:***/'],
    ['SLUICE_OUTGOING_HOSTS', 'https://a:hunter2=1/s', 'https://a:***/s'],
    ['SLUICE_TRUSTED_PROXIES', 'fe80::1/129', 'fe80::1/129'],
  ])('refuse %s=%s without a credential that may be in it', (variable, value, shown) => {
    expect(linesOf({ [variable]: value })).toEqual([expect.stringMatching(/ is not accepted; expected /)]);
    expect(linesOf({ [variable]: value })[0]).toContain(`${variable}: ${JSON.stringify(shown)} `);
    expect(linesOf({ [variable]: value }).join()).not.toContain('hunter2');
    const { name } = describeSettings().find((setting) => setting.variable === variable) ?? { name: '' };
    expect(linesOf({}, { [name]: [value, { nested: value }] }).join()).not.toContain('hunter2');
  });

  it('reads credentials and keys by reference too, and names a reference that cannot be read', () => {
    const settings = readSettings({ SLUICE_DASHBOARD_TOKEN: 'env:TOKEN', TOKEN: 'abc', SLUICE_STORE_KEY: 'literal' });
    expect(settings).toMatchObject({ dashboardToken: 'abc', storeKey: 'literal' });
    expect(linesOf({ SLUICE_DASHBOARD_TOKEN: 'env:TOKEN' })).toEqual([
      'SLUICE_DASHBOARD_TOKEN: the environment variable TOKEN is not set',
    ]);
  });

  it('take the environment over the config module', () => {
    const config = { port: 1, enforcementMode: 'Audit', publicUrl: 'https://a.example/' };
    const settings = readSettings({ SLUICE_PORT: '2' }, config);
    expect(settings).toMatchObject({ port: 2, enforcementMode: 'Audit', publicUrl: 'https://a.example' });
  });

  it.each(['enforce', 'ENFORCE', 'Enforce'])('read the mode in any case: %s', (mode) => {
    expect(readSettings({ SLUICE_ENFORCEMENT_MODE: mode }).enforcementMode).toBe('Enforce');
  });

  it('honour HOST and PORT only where ours are unset', () => {
    expect(readSettings({ PORT: '8080', HOST: 'localhost' })).toMatchObject({ port: 8080, host: 'localhost' });
    expect(readSettings({ PORT: '8080', SLUICE_PORT: '9090' }).port).toBe(9090);
  });

  it.each(['0.0.0.0', '::', '10.0.0.1', 'sluice.internal'])(
    'stop a start on %s without credentials, and say how to set them',
    (host) => {
      const [line] = linesOf({ SLUICE_HOST: host });
      expect(line).toMatch(/SLUICE_DASHBOARD_TOKEN.*SLUICE_DASHBOARD_AUTH=none/);
      expect(linesOf({ SLUICE_HOST: host, SLUICE_DASHBOARD_TOKEN: 't' })).toEqual([]);
      expect(linesOf({ SLUICE_HOST: host, SLUICE_DASHBOARD_USER: 'u', SLUICE_DASHBOARD_PASSWORD: 'p' })).toEqual([]);
      expect(linesOf({ SLUICE_HOST: host, SLUICE_DASHBOARD_AUTH: 'none' })).toEqual([]);
    },
  );

  it.each(['127.0.0.1', '127.8.9.1', '::1', 'localhost', '::ffff:127.0.0.1'])('open on loopback %s without', (host) => {
    expect(linesOf({ SLUICE_HOST: host })).toEqual([]);
  });

  it.each([
    [{ SLUICE_DASHBOARD_USER: 'u' }, /set both or neither/],
    [{ SLUICE_DASHBOARD_USER: 'u:v', SLUICE_DASHBOARD_PASSWORD: 'p' }, /colon/],
    [{ SLUICE_DASHBOARD_TOKEN: 't', SLUICE_DASHBOARD_AUTH: 'none' }, /contradicts/],
    [
      { SLUICE_REPLAY_TOLERANCE_SECONDS: '61', SLUICE_NONCE_TTL_SECONDS: '60' },
      /SLUICE_NONCE_TTL_SECONDS: 60 is shorter/,
    ],
    [{ SLUICE_REPLAY_TOLERANCE_SECONDS: '86401' }, /SLUICE_NONCE_TTL_SECONDS: 86400 is shorter/],
  ])('refuse %o because the parts contradict each other', (environment, expected) => {
    expect(linesOf(environment).join()).toMatch(expected);
  });

  it('are each described by a variable and by what it accepts', () => {
    for (const { variable, accepts } of describeSettings()) {
      expect(variable).toMatch(/^SLUICE_[A-Z0-9_]+$/);
      expect(accepts).not.toBe('');
    }
  });
});

describe('an address of traces', () => {
  const GRPC = { OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' };
  it.each<[Record<string, string>, string]>([
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'not a url, s3cr3t' }, 'OTEL_EXPORTER_OTLP_ENDPOINT'],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://' }, 'OTEL_EXPORTER_OTLP_ENDPOINT'],
    [
      { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a:4317', OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'a:port' },
      'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT',
    ],
  ])('that the exporter of gRPC cannot read is refused with one line without it: %o', async (environment, name) => {
    expect(linesOfReading(() => tracingSettings({ ...GRPC, ...environment }))).toEqual([
      `${name}: is not an address; with the protocol grpc, HOST:PORT, http://HOST:PORT or https://HOST:PORT is accepted`,
    ]);
  });

  it.each([
    'collector:4317',
    'collector',
    ' http://collector:4317 ',
    'https://[::1]:4317',
    'unix:///run/otel.sock',
    'dns:///collector:4317',
  ])('that it can read is accepted: %s', (address) => {
    expect(tracingSettings({ ...GRPC, OTEL_EXPORTER_OTLP_ENDPOINT: address })).toMatchObject({ hasExporter: true });
  });

  it.each(['a b', 'collector:4318', 'collector', 'http://', '/v1/traces', 'unix:///run/otel.sock'])(
    'that the exporter of HTTP cannot read is refused, not replaced by localhost: %s',
    (address) => {
      for (const protocol of [{}, { OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'http/json' }]) {
        const given = { ...protocol, OTEL_EXPORTER_OTLP_ENDPOINT: address };
        expect(linesOfReading(() => tracingSettings(given))).toEqual([
          'OTEL_EXPORTER_OTLP_ENDPOINT: is not an address; http://HOST:PORT or https://HOST:PORT is accepted',
        ]);
      }
      const https = { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: ' HTTPS://collector/v1/traces ' };
      expect(tracingSettings(https)).toMatchObject({ hasExporter: true });
    },
  );

  it('is not asked of another exporter, and a blank one is none', () => {
    const given = { OTEL_EXPORTER_OTLP_ENDPOINT: 'a b' };
    expect(tracingSettings({ ...GRPC, ...given, OTEL_TRACES_EXPORTER: 'console' })).toMatchObject({
      hasExporter: true,
    });
    expect(tracingSettings({ OTEL_EXPORTER_OTLP_ENDPOINT: ' ' })).toMatchObject({ hasExporter: false });
  });
});

const TOKEN = { SLUICE_DASHBOARD_TOKEN: '0123456789abcdef' };

describe('settings that protect nothing', () => {
  it.each<[string, string, string]>([
    ['SLUICE_RATE_LIMIT_BURST_SIZE', '5', 'limits nothing by itself'],
    ['SLUICE_RATE_LIMIT_PER_IP', 'true', 'limits nothing by itself'],
    ['SLUICE_REPLAY_TOLERANCE_SECONDS', '86401', 'is more than a day'],
    ['SLUICE_TRUSTED_PROXIES', '0.0.0.0/0', 'any client can'],
    ['SLUICE_TRUSTED_PROXIES', '10.0.0.1,::/1,8000::/1', 'any client can'],
    ['SLUICE_EGRESS_ALLOW', 'erp.internal,0.0.0.0/1,128.0.0.0/1', 'your own network'],
    ['SLUICE_DASHBOARD_TOKEN', 'changeme', 'is a placeholder'],
    ['SLUICE_DASHBOARD_TOKEN', '0123456789abcde', 'has fewer than 16 bytes'],
    ['SLUICE_DASHBOARD_TOKEN', '0123456789abcdef ', 'white space'],
    ['SLUICE_STORE_KEY', 'short', 'has fewer than 16 bytes'],
    ['SLUICE_STORE_KEY', 'a'.repeat(32), 'repeats one byte, which anyone can guess'],
    ['SLUICE_DASHBOARD_TOKEN', '0'.repeat(40), 'repeats one byte, which anyone can guess'],
  ])('are told at the start: %s=%s %s', (name, value, message) => {
    // No tolerance may be longer than nonces are kept.
    const settings = readSettings({ ...TOKEN, SLUICE_NONCE_TTL_SECONDS: '172800', [name]: value });
    expect(settingsWarnings(settings)).toEqual([expect.stringMatching(`^warning ${name}: .*${message}`)]);
  });

  it('are none of the usual ones', () => {
    expect(settingsWarnings(readSettings({}))).toEqual([]);
    const usual = {
      SLUICE_RATE_LIMIT_PERMITS_PER_SECOND: '5',
      SLUICE_RATE_LIMIT_BURST_SIZE: '10',
      SLUICE_RATE_LIMIT_PER_IP: 'true',
      SLUICE_REPLAY_TOLERANCE_SECONDS: '86400',
      SLUICE_TRUSTED_PROXIES: '10.0.0.0/8,::ffff:10.0.0.0/104',
      SLUICE_EGRESS_ALLOW: 'erp.internal,192.168.0.0/16',
      SLUICE_DASHBOARD_USER: 'ops',
      SLUICE_DASHBOARD_PASSWORD: 'four words of a',
      SLUICE_STORE_KEY: '7d5e0c9f41a86b23',
    };
    expect(settingsWarnings(readSettings(usual))).toEqual([]);
  });

  it('are told without a secret', () => {
    const [line] = settingsWarnings(readSettings({ SLUICE_DASHBOARD_TOKEN: 'changeme-hunter2' }));
    expect(line).toContain('SLUICE_DASHBOARD_TOKEN');
    expect(line).not.toContain('hunter2');
  });
});

function sameName(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}

describe('a start warns', () => {
  const warnings = (environment: Record<string, string>) => settingsWarnings(readSettings(environment));

  it('of a depth without the proxies that vouch for it, and of nothing else', () => {
    expect(warnings({ ...TOKEN, SLUICE_FORWARDED_HEADER_DEPTH: '1' })).toEqual([
      expect.stringMatching(
        /^warning SLUICE_FORWARDED_HEADER_DEPTH=1 .*correct behind 2 proxies.*set SLUICE_TRUSTED_PROXIES too$/,
      ),
    ]);
    const both = { SLUICE_FORWARDED_HEADER_DEPTH: '1', SLUICE_TRUSTED_PROXIES: '10.0.0.0/8' };
    expect(warnings({ ...TOKEN, ...both })).toEqual([]);
    expect(warnings({})).toEqual([]);
  });

  it.each([
    { SLUICE_PUBLIC_URL: 'https://hooks.example.com' },
    { SLUICE_TRUSTED_PROXIES: '127.0.0.1' },
    { SLUICE_FORWARDED_HEADER_DEPTH: '1' },
  ])('of %j without credentials: a proxy may look like a local client', (setting) => {
    const [name = ''] = Object.keys(setting);
    const told = expect.stringMatching(
      `^warning ${name}: means that a proxy is in front, but the dashboard has no cred`,
    );
    expect(warnings(setting)).toContainEqual(told);
    expect(warnings({ ...setting, ...TOKEN })).not.toContainEqual(told);
    expect(warnings({ ...setting, SLUICE_DASHBOARD_AUTH: 'none' })).not.toContainEqual(told);
    for (const url of ['http://localhost:3000', 'http://[::1]:3000'])
      expect(warnings({ SLUICE_PUBLIC_URL: url })).toEqual([]);
  });
});
