import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { buildApp } from '../../src/app.ts';
import { readSettings } from '../../src/config/settings.ts';
import { describeSettings } from '../../src/config/settings-schema.ts';
import { DCLinter, lintDockerfile } from '../oracles/docker.ts';
import { temporaryFolder } from '../temporary.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const DOCKER = join(ROOT, 'docker');
const textOf = (...path: string[]) => readFileSync(join(ROOT, ...path), 'utf8');

interface Service {
  readonly image: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly env_file?: readonly string[];
  readonly volumes?: readonly string[];
  readonly secrets?: readonly string[];
  readonly networks?: readonly string[] | Readonly<Record<string, unknown>>;
  readonly healthcheck?: { readonly test?: readonly string[] };
  readonly [option: string]: unknown;
}

interface Compose {
  readonly services: Readonly<Record<string, Service>>;
  readonly networks: Readonly<Record<string, { readonly ipam?: { readonly config: readonly { subnet: string }[] } }>>;
  readonly volumes: Readonly<Record<string, unknown>>;
  readonly secrets: Readonly<Record<string, { readonly file: string }>>;
}

const COMPOSES = readdirSync(DOCKER)
  .filter((file) => file.startsWith('compose'))
  .map((file) => ({ file, compose: parse(textOf('docker', file), { merge: true }) as Compose }));

const VARIABLES = new Set(describeSettings().map(({ variable }) => variable));
const isSluice = ({ image }: Service) => image.startsWith('sluice:');
const sources = ({ volumes = [] }: Service) => volumes.map((volume) => volume.split(':')[0] ?? '');
const namesOf = (given: Service['networks'] = []) => (Array.isArray(given) ? given : Object.keys(given)) as string[];
const sorted = (names: Iterable<string>) => [...new Set(names)].sort();

/** Linter rules about the order of keys, ports that are public on purpose, and images that we build. */
const NOT_OURS = [
  'no-build-and-image',
  'no-unbound-port-interfaces',
  'require-quotes-in-ports',
  'service-keys-order',
  'services-alphabetical-order',
  'top-level-properties-order',
];

/** Errors of a compose file, by the compose schema and a linter's other rules. */
function mistakesOf(file: string) {
  const rules = Object.fromEntries(NOT_OURS.map((rule) => [rule, 0 as const]));
  const linter = new DCLinter({ rules, quiet: false, debug: false, exclude: [] });
  const results: readonly { messages: readonly { message: string }[] }[] = linter.lintFiles([file], false);
  return results.flatMap(({ messages }) => messages.map(({ message }) => message));
}

/** An image named by its digest; the tag before it is for readers. */
const PINNED = /^[\w./-]+:v?\d+\.\d+(\.\d+)?(-[\w-]+)?@sha256:[0-9a-f]{64}$/;

/** The files that the operator prepares with the page's commands. */
const PREPARED = ['./manifests', './secrets', './sluice.env', './.env'];

describe.each(COMPOSES)('docker/$file', ({ file, compose }) => {
  const services = Object.values(compose.services);

  it('names networks, volumes and secrets that it declares, and declares no others', () => {
    const volumes = services.flatMap(sources).filter((source) => !source.startsWith('.'));
    expect(sorted(volumes)).toEqual(sorted(Object.keys(compose.volumes)));
    expect(sorted(services.flatMap(({ networks }) => namesOf(networks)))).toEqual(
      sorted(Object.keys(compose.networks)),
    );
    expect(sorted(services.flatMap(({ secrets = [] }) => secrets))).toEqual(sorted(Object.keys(compose.secrets)));
  });

  it('mounts files that are in the repository, or that the page on installing makes', () => {
    const page = textOf('docs/install.md');
    const files = [
      ...services.flatMap(sources).filter((source) => source.startsWith('.')),
      ...services.flatMap(({ env_file = [] }) => env_file.map((name) => `./${name}`)),
      ...Object.values(compose.secrets).map((secret) => secret.file),
    ];
    for (const path of files) {
      const prepared = PREPARED.find((place) => path === place || path.startsWith(`${place}/`));
      if (prepared === undefined) expect(existsSync(join(DOCKER, path)), path).toBe(true);
      else expect(page, path).toContain(path.split('/').at(-1));
    }
  });

  it('is a compose file without a mistake that a linter knows', () => {
    expect(mistakesOf(join(DOCKER, file))).toEqual([]);
  });

  it('pins each image of others by its digest', () => {
    for (const { image } of services.filter((service) => !isSluice(service))) expect(image).toMatch(PINNED);
  });

  it('gives Sluice settings that it accepts', () => {
    const folder = temporaryFolder('deployment');
    mkdirSync(join(folder, 'run/secrets'), { recursive: true });
    for (const name of Object.keys(compose.secrets)) writeFileSync(join(folder, 'run/secrets', name), `a long ${name}`);
    const tokens = textOf('docker/tokens.json').replaceAll('file:/run', `file:${folder}/run`);
    writeFileSync(join(folder, 'tokens.json'), tokens);
    const inside = (value: string) =>
      value
        .replace(/\$\{\w+:\?[^}]*\}/g, 'given.example')
        .replace('file:/run', `file:${folder}/run`)
        .replace('/etc/sluice', folder);
    for (const { environment = {} } of services.filter(isSluice)) {
      const given = Object.entries(environment).map(([name, value]) => [name, inside(value)]);
      const settings = readSettings({ SLUICE_HOST: '0.0.0.0', ...Object.fromEntries(given) });
      expect(settings.tokens.map((entry) => ({ name: 'name' in entry && entry.name, scopes: entry.scopes }))).toEqual([
        { name: 'prometheus', scopes: ['read'] },
      ]);
      expect(settings).toMatchObject({ enforcementMode: 'Enforce', strictManifests: true });
    }
  });

  it('trusts the network of the proxy and no other', () => {
    const subnets = compose.networks.proxy?.ipam?.config.map(({ subnet }) => subnet);
    for (const { environment } of services.filter(isSluice)) {
      expect([environment?.SLUICE_TRUSTED_PROXIES]).toEqual(subnets);
    }
  });

  it('gives Caddy what its file asks for, and Sluice as its upstreams', () => {
    const { caddy } = compose.services;
    const asked = [...textOf('docker/Caddyfile').matchAll(/\{\$(\w+)\}/g)].map(([, name]) => name ?? '');
    expect(sorted(Object.keys(caddy?.environment ?? {}))).toEqual(sorted(asked));
    const behind = Object.entries(compose.services).filter(
      ([, one]) => isSluice(one) && namesOf(one.networks).includes('proxy'),
    );
    expect(caddy?.environment?.UPSTREAMS).toBe(behind.map(([name]) => `${name}:3000`).join(' '));
  });

  it('starts every process of Sluice with the same settings', () => {
    const [first, ...others] = services.filter(isSluice);
    for (const other of others) expect(other.environment).toEqual(first?.environment);
  });

  it('runs Sluice without rights that it does not need', () => {
    for (const service of services.filter(isSluice)) {
      expect(service).toMatchObject({
        read_only: true,
        cap_drop: ['ALL'],
        security_opt: ['no-new-privileges:true'],
      });
    }
  });

  it('starts Prometheus and Grafana as the other files do', () => {
    for (const { compose: other } of COMPOSES) {
      expect(compose.services.prometheus, file).toEqual(other.services.prometheus);
      expect(compose.services.grafana, file).toEqual(other.services.grafana);
    }
  });
});

it('the linter of compose files finds a wrong one', () => {
  const folder = temporaryFolder('deployment');
  const wrong = join(folder, 'compose.yml');
  writeFileSync(wrong, textOf('docker/compose.yml').replace('read_only:', 'readonly:'));
  expect(mistakesOf(wrong)).toEqual([expect.stringContaining('must NOT have additional properties')]);
});

describe('docker/Dockerfile', () => {
  const instructions = textOf('docker/Dockerfile').replaceAll('\\\n', '').split('\n');

  it('copies files that exist and are sent to the builder', () => {
    const [, ...rules] = textOf('docker/Dockerfile.dockerignore')
      .split('\n')
      .filter((line) => /^[!*]/.test(line));
    const sent = rules.map((line) => line.slice(1));
    const copied = instructions.flatMap((line) => {
      const [instruction, ...words] = line.split(/\s+/);
      return instruction === 'COPY' && !words[0]?.startsWith('--') ? words.slice(0, -1) : [];
    });
    expect(copied.length).toBeGreaterThan(5);
    for (const path of copied) {
      expect(existsSync(join(ROOT, path)), path).toBe(true);
      expect(sent).toContain(path);
    }
  });

  it('copies everything that the build reads', () => {
    const scripts = ['build.mjs', 'bundle.mjs'].map((name) => textOf('scripts', name)).join('\n');
    const read = [...scripts.matchAll(/join\(root, '([^']+)'\)/g)].map(([, path]) => path ?? '');
    const sources = read.filter((path) => !/^(dist|node_modules)(\/|$)/.test(path));
    expect(sources).toContain('src/serve.ts');
    const copied = new Set(instructions.flatMap((line) => /^COPY (?!--)(\S+)/.exec(line)?.[1] ?? []));
    const isCopied = (path: string) => [...copied].some((one) => path === one || path.startsWith(`${one}/`));
    expect(sources.filter((path) => !isCopied(path))).toEqual([]);
  });

  it('sets variables that Sluice has, and uses the Node that the tests use', () => {
    const set = instructions.join('\n').match(/SLUICE_\w+(?==)/g) ?? [];
    expect(set.length).toBeGreaterThan(2);
    expect(set.filter((name) => !VARIABLES.has(name))).toEqual([]);
    const { devDependencies } = JSON.parse(textOf('package.json'));
    expect(instructions.join('\n')).toContain(`NODE_IMAGE=node:${devDependencies.node}-`);
  });

  it('has no mistake that a linter knows, and pins its base by the digest', () => {
    expect(lintDockerfile(textOf('docker/Dockerfile'))).toEqual([]);
    expect(lintDockerfile('FROM node\nRUNX true')).not.toEqual([]);
    const bases = instructions.flatMap((line) => /^FROM (?:--platform=\S+ )?(\S+)/.exec(line)?.[1] ?? []);
    expect(bases).toEqual(Array(3).fill(expect.stringMatching(/^\$\{NODE_IMAGE\}$/)));
    expect(/^ARG NODE_IMAGE=(.*)$/m.exec(instructions.join('\n'))?.[1]).toMatch(PINNED);
  });

  it('brings packages that run on any processor', () => {
    const { packages } = JSON.parse(textOf('package-lock.json'));
    const bound = Object.entries<{ cpu?: string[]; dev?: boolean }>(packages).filter(
      ([, { cpu, dev }]) => cpu !== undefined && dev !== true,
    );
    // The image removes the compiler, which is installed as a package's optional peer.
    expect(bound.map(([path]) => path).filter((path) => !path.startsWith('node_modules/@typescript/'))).toEqual([]);
    const built = readdirSync(join(ROOT, 'node_modules/better-sqlite3/prebuilds'));
    expect(built).toEqual(expect.arrayContaining(['linux-x64.node', 'linux-arm64.node']));
  });
});

describe('docker/health.mjs', () => {
  const script = join(DOCKER, 'health.mjs');
  const ask = (port: number, kind: string) =>
    promisify(execFile)(process.execPath, [script, kind], { env: { SLUICE_PORT: String(port) } }).then(
      ({ stdout }) => ({ code: 0, stdout }),
      ({ code, stdout }) => ({ code, stdout }),
    );

  it('succeeds while the service answers, and fails when it is gone', async () => {
    const folder = temporaryFolder('deployment');
    const settings = { port: 0, databaseUrl: 'sqlite::memory:', manifests: folder, logLevel: 'silent' as const };
    const app = await buildApp({ settings });
    const port = Number(new URL(await app.listen()).port);
    expect(await ask(port, 'live')).toEqual({ code: 0, stdout: `http://127.0.0.1:${port}/health/live: 200\n` });
    expect(await ask(port, 'ready')).toEqual({ code: 0, stdout: `http://127.0.0.1:${port}/health/ready: 200\n` });
    expect(await ask(port, 'nothing')).toMatchObject({ code: 1 });
    await app.close();
    expect(await ask(port, 'ready')).toMatchObject({ code: 1 });
  });

  it('is what the image and the compose files call', () => {
    const called = [
      textOf('docker/Dockerfile').match(/HEALTHCHECK.*CMD (\[.*\])/)?.[1],
      ...COMPOSES.flatMap(({ compose }) => Object.values(compose.services).filter(isSluice))
        .flatMap(({ healthcheck }) => healthcheck?.test ?? [])
        .filter((word) => word.endsWith('.mjs')),
    ];
    for (const command of called) expect(command).toContain('/app/health.mjs');
    expect(textOf('docker/Dockerfile')).toContain(`${relative(ROOT, script)} ./`);
  });
});

describe('docs/sluice.service', () => {
  const unit = textOf('docs/sluice.service');

  it('sets variables that Sluice has', () => {
    const set = unit.match(/(?<=^Environment=)SLUICE_\w+/gm) ?? [];
    expect(set.length).toBeGreaterThan(2);
    expect(set.filter((name) => !VARIABLES.has(name))).toEqual([]);
  });

  it('starts the file of the package that starts the service', () => {
    const [, file = ''] = /^ExecStart=\/usr\/bin\/node \S+\/node_modules\/sluice\/(\S+)$/m.exec(unit) ?? [];
    expect(existsSync(join(ROOT, file)), file).toBe(true);
    expect(textOf('docs/install.md')).toContain('--prefix /opt/sluice');
  });
});
