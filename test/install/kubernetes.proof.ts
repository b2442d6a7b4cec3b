import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, expect, inject, it, onTestFinished } from 'vitest';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { eventually, githubManifest } from '../e2e/service.ts';
import { type KubeObject, unknownFields, wrongValues } from '../oracles/kubernetes.ts';
import { newSchema } from '../postgres/schemas.ts';
import { temporaryFolder } from '../temporary.ts';
import { fetchKubeTools, find, readText } from './kube-tools.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const CHART = join(ROOT, 'charts/sluice');
const tools = fetchKubeTools();
const { helm, kubectls } = typeof tools === 'string' ? { helm: '', kubectls: [] } : tools;
const PAGE = readText('docs/kubernetes.md');

function run(command: string, ...args: string[]) {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd: ROOT, encoding: 'utf8' });
  return { status, stdout, stderr };
}

function objectsOf(text: string): KubeObject[] {
  return parseAllDocuments(text).flatMap((document) => (document.toJS() as KubeObject | null) ?? []);
}

function valuesFile(values: object): string {
  const file = join(temporaryFolder('chart'), 'values.yaml');
  writeFileSync(file, stringify(values));
  return file;
}

function render(values: object = {}): KubeObject[] {
  const { status, stdout, stderr } = run(helm, 'template', 'sluice', CHART, '--values', valuesFile(values));
  expect(status, stderr).toBe(0);
  return objectsOf(stdout);
}

/** The YAML examples of the page, by their first comment. */
const example = (name: string) =>
  new RegExp(`^\`\`\`yaml\\n# ${name}\\n([\\s\\S]*?)^\`\`\``, 'm').exec(PAGE)?.[1] ?? '';

const EVERYTHING = {
  image: { repository: 'registry.example/sluice', digest: `sha256:${'a'.repeat(64)}`, pullSecrets: ['registry'] },
  replicas: 3,
  manifestSecrets: ['webhook-keys', 'more-keys'],
  trustedProxies: ['10.42.0.0/16', '::1'],
  manifests: { 'order.json': readText('manifests/order.json'), 'odd.json': '{"a":"$\\{ {{ y }} <&> \\u0000"}' },
  settings: { SLUICE_MAX_BODY_BYTES: 268_435_456, SLUICE_HOLD_DELIVERIES: true, SLUICE_SERVICE_NAME: 'a "b": c' },
  tokens: [{ name: 'ci', key: 'ci-token', scopes: ['deploy'] }],
  nodeSelector: { disk: 'fast' },
  tolerations: [{ key: 'a', operator: 'Exists', effect: 'NoSchedule' }],
  affinity: { nodeAffinity: {} },
  podAnnotations: { a: 'b' },
  priorityClassName: 'high',
  service: { port: 8080, annotations: { a: 'b' } },
  ingress: {
    ...{ enabled: true, className: 'nginx', annotations: { a: 'b' }, tlsSecretName: 'tls' },
    dashboard: { host: 'sluice.example.com', annotations: { auth: 'c' }, tlsSecretName: 'dashboard-tls' },
  },
  networkPolicy: {
    ingressFrom: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'ingress' } } }],
    metricsFrom: [{ podSelector: { matchLabels: { app: 'prometheus' } } }],
    databaseTo: [{ ipBlock: { cidr: '10.0.0.5/32' } }],
  },
  serviceMonitor: { enabled: true, labels: { release: 'prometheus' } },
};

interface Ingress {
  readonly spec: {
    readonly rules: readonly {
      readonly host: string;
      readonly http: {
        readonly paths: readonly {
          readonly path: string;
          readonly backend: { readonly service: { readonly name: string } };
        }[];
      };
    }[];
  };
}
interface Env {
  readonly name: string;
  readonly value?: string;
}
interface Mount {
  readonly name: string;
  readonly mountPath: string;
}
interface Deployment {
  readonly spec: {
    readonly replicas: number;
    readonly template: {
      readonly metadata: { readonly annotations: Readonly<Record<string, string>> };
      readonly spec: {
        readonly terminationGracePeriodSeconds: number;
        readonly securityContext: object;
        readonly containers: readonly {
          readonly image: string;
          readonly env: readonly Env[];
          readonly volumeMounts: readonly Mount[];
          readonly readinessProbe: { readonly httpGet: { readonly path: string } };
          readonly livenessProbe: { readonly httpGet: { readonly path: string } };
        }[];
      };
    };
  };
}
const podOf = (objects: readonly KubeObject[]) => find<Deployment>(objects, 'Deployment').spec.template;
function containerOf(objects: readonly KubeObject[]) {
  const [container] = podOf(objects).spec.containers;
  if (container === undefined) throw new Error('the pod has no container');
  return container;
}
const variablesOf = (objects: readonly KubeObject[]) =>
  Object.fromEntries(containerOf(objects).env.map(({ name, value = `of the pod: ${name}` }) => [name, value]));

const suite = describe.skipIf(typeof tools === 'string');

suite(`the chart${typeof tools === 'string' ? ` (${tools})` : ''}`, () => {
  it('passes the linter of Helm', () => {
    const { status, stdout, stderr } = run(helm, 'lint', '--strict', CHART);
    expect(status, stdout + stderr).toBe(0);
  });

  it('has the version of the package', () => {
    const { version } = JSON.parse(readText('package.json'));
    expect(parse(readText('charts/sluice/Chart.yaml'))).toMatchObject({ version, appVersion: version });
  });

  it.each<[string, object]>([
    ['its own values', {}],
    ['the values of the page', parse(example('my-values.yaml'))],
    ['everything set', EVERYTHING],
    ['as little as possible', { podDisruptionBudget: { enabled: false }, networkPolicy: { enabled: false } }],
  ])('renders with %s objects that Kubernetes knows', async (_, values) => {
    const objects = render(values);
    expect(objects.length).toBeGreaterThan(4);
    expect(await wrongValues(objects)).toEqual([]);
    expect(unknownFields(objects)).toEqual([]);
  });

  it('would be told of a field that Kubernetes does not have, and of a wrong value', async () => {
    const [budget] = render().filter(({ kind }) => kind === 'PodDisruptionBudget');
    expect(unknownFields([{ ...budget, spec: { minAvailble: 1 } } as unknown as KubeObject])).toEqual([
      expect.stringMatching(/minAvailble\S* does not exist in type 'IPodDisruptionBudgetSpec'/),
    ]);
    const wrong = { ...find<{ spec: object }>(render(), 'Service'), spec: { ports: [{ port: 'x' }] } };
    expect(await wrongValues([wrong])).toHaveLength(1);
  });

  it.each<[string, object]>([
    ['a value that there is not', { publicURL: 'https://hooks.example' }],
    ['a value that there is not, further in', { networkPolicy: { enable: false } }],
    ['a setting that the chart sets itself', { settings: { SLUICE_TOKENS: 'x' } }],
    ['a secret that is written out', { settings: { SLUICE_DASHBOARD_PASSWORD: 'hunter2hunter2' } }],
    ['no replica', { replicas: 0 }],
    ['a digest that is none', { image: { digest: 'sha256:abc' } }],
    ['a scope that there is not', { tokens: [{ name: 'a', key: 'b', scopes: ['admin'] }] }],
    ['a path that opens the metrics', { ingress: { enabled: true, path: '/' } }],
    ['a dashboard on the host for publishers too', { ingress: { path: '/flows', dashboard: { host: 'a.example' } } }],
    ['a proxy that is no address', { trustedProxies: ['everybody'] }],
    ['manifests that are not JSON', { manifests: { 'order.yaml': '{}' } }],
  ])('refuses %s', (_, values) => {
    const { status, stderr } = run(helm, 'template', 'sluice', CHART, '--values', valuesFile(values));
    expect([status, stderr]).toEqual([
      1,
      expect.stringContaining("values don't meet the specifications of the schema"),
    ]);
  });

  it('keeps the dashboard and the receive endpoint on different hosts if the dashboard has one', () => {
    const objects = render(EVERYTHING);
    const routes = objects
      .filter(({ kind }) => kind === 'Ingress')
      .flatMap((ingress) => (ingress as unknown as Ingress).spec.rules)
      .flatMap(({ host, http }) => http.paths.map(({ path, backend }) => `${host}${path} to ${backend.service.name}`));
    expect(routes).toEqual([
      'hooks.example.com/flows/api/webhook/ to sluice',
      'sluice.example.com/flows to sluice',
      'sluice.example.com/flows/api/webhook to sluice-nowhere',
    ]);
    const nowhere = find<{ spec: object }>(objects, 'Service', 'sluice-nowhere');
    expect(nowhere.spec).not.toHaveProperty('selector');
    const dashboard = find<{ metadata: object; spec: object }>(objects, 'Ingress', 'sluice-dashboard');
    expect(dashboard).toMatchObject({
      metadata: { annotations: { auth: 'c' } },
      spec: { ingressClassName: 'nginx', tls: [{ hosts: ['sluice.example.com'], secretName: 'dashboard-tls' }] },
    });
    expect(render({ ingress: { enabled: true } }).map(({ metadata }) => metadata.name)).not.toContain('sluice-nowhere');
  });

  it('refuses one host for both if the dashboard is to have its own', () => {
    const ingress = { enabled: true, host: 'a.example', dashboard: { host: 'A.example' } };
    const { status, stderr } = run(helm, 'template', 'sluice', CHART, '--values', valuesFile({ ingress }));
    expect([status, stderr]).toEqual([1, expect.stringContaining('the dashboard needs a host of its own')]);
  });

  it('writes values as they are given', () => {
    const objects = render(EVERYTHING);
    expect(variablesOf(objects)).toMatchObject({
      SLUICE_MAX_BODY_BYTES: '268435456',
      SLUICE_HOLD_DELIVERIES: 'true',
      SLUICE_SERVICE_NAME: 'a "b": c',
      SLUICE_TRUSTED_PROXIES: '10.42.0.0/16,::1',
      SLUICE_ENFORCEMENT_MODE: 'Enforce',
    });
    const manifests = find<{ data: object }>(objects, 'ConfigMap', 'sluice-manifests');
    expect(manifests.data).toEqual(EVERYTHING.manifests);
    const config = find<{ data: { 'tokens.json': string } }>(objects, 'ConfigMap', 'sluice');
    expect(JSON.parse(config.data['tokens.json']).map(({ scopes }: { scopes: string[] }) => scopes)).toEqual([
      ['metrics'],
      ['deploy'],
    ]);
    expect(containerOf(objects).image).toBe(`registry.example/sluice@sha256:${'a'.repeat(64)}`);
  });

  it('replaces the replicas when a manifest changes', () => {
    const of = (text: string) => podOf(render({ manifests: { 'a.json': text } })).metadata.annotations;
    expect(of('{}')).not.toEqual(of('{ }'));
    expect(of('{}')).toEqual(of('{}'));
  });

  it('gives a pod the time that the settings take, and the rights of the image', () => {
    const { spec } = podOf(render({ drainSeconds: 30, graceSeconds: 50 }));
    expect(spec.terminationGracePeriodSeconds).toBe(90);
    expect(spec.securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 1000 });
    expect(readText('docker/Dockerfile')).toMatch(/^USER node$/m);
  });

  it('holds no secret, and asks for the keys that the page makes', () => {
    const objects = render(EVERYTHING);
    expect(objects.map(({ kind }) => kind)).not.toContain('Secret');
    const asked = new Set(JSON.stringify(objects).match(/(?<=\/run\/secrets\/sluice\/)[\w-]+|metrics-token/g));
    const made = [...PAGE.matchAll(/--from-literal=([\w-]+)=/g)].map(([, key]) => key ?? '');
    expect([...asked].sort()).toEqual([...made, 'ci-token'].sort());
  });
});

const named = (objects: readonly KubeObject[]) =>
  new Map(objects.map((one) => [`${one.kind} ${one.metadata.name}`, one]));

suite('the kustomize base', () => {
  it('is what the chart renders', () => {
    const folder = temporaryFolder('chart');
    for (const part of ['base', 'monitoring']) mkdirSync(join(folder, part));
    const { status, stderr } = run(process.execPath, 'scripts/kustomize.mjs', helm, folder);
    expect(status, stderr).toBe(0);
    const remedy = 'run `npm run kustomize`';
    for (const file of ['base/sluice.yaml', 'monitoring/servicemonitor.yaml'])
      expect(readText(`charts/kustomize/${file}`), remedy).toBe(run('cat', join(folder, file)).stdout);
  });

  it.each(kubectls)('is rendered whole by %s', async (kubectl) => {
    for (const [part, file] of [
      ['base', 'sluice.yaml'],
      ['monitoring', 'servicemonitor.yaml'],
    ]) {
      const { status, stdout, stderr } = run(kubectl, 'kustomize', `charts/kustomize/${part}`);
      expect(status, stderr).toBe(0);
      const objects = objectsOf(stdout);
      expect(await wrongValues(objects)).toEqual([]);
      expect(unknownFields(objects)).toEqual([]);
      // The generated ConfigMap's name contains a hash of its content.
      const unhashed = objectsOf(stdout.replace(/sluice-manifests-\w{10}/g, 'sluice-manifests'));
      const own = unhashed.filter(({ metadata }) => metadata.name !== 'sluice-manifests');
      expect(unhashed.length - own.length).toBe(part === 'base' ? 1 : 0);
      expect(named(own)).toEqual(named(objectsOf(readText(`charts/kustomize/${part}/${file}`))));
    }
  });

  it('takes the overlay of the page', async () => {
    const folder = temporaryFolder('chart');
    cpSync(join(ROOT, 'charts'), join(folder, 'charts'), { recursive: true });
    mkdirSync(join(folder, 'hooks'));
    writeFileSync(join(folder, 'hooks/kustomization.yaml'), example('kustomization.yaml'));
    writeFileSync(join(folder, 'hooks/order.json'), readText('manifests/order.json'));
    const { status, stdout, stderr } = run(kubectls[0] ?? '', 'kustomize', join(folder, 'hooks'));
    expect([status, stderr]).toEqual([0, '']);
    const objects = objectsOf(stdout);
    expect(await wrongValues(objects)).toEqual([]);
    expect(unknownFields(objects)).toEqual([]);
    expect(containerOf(objects).image).toBe('registry.example.com/sluice:0.1.0');
    expect(variablesOf(objects)).toMatchObject({
      SLUICE_PUBLIC_URL: 'https://hooks.our.example',
      SLUICE_TRUSTED_PROXIES: '10.42.0.0/16',
      SLUICE_ENFORCEMENT_MODE: 'Enforce',
    });
    const [manifests] = objects.filter(({ metadata }) => metadata.name.startsWith('sluice-manifests-'));
    expect(manifests).toMatchObject({ data: { 'order.json': readText('manifests/order.json') } });
    expect(JSON.stringify(podOf(objects))).toContain(`"${manifests?.metadata.name}"`);
  });
});

/** A volume as Kubernetes mounts it: each file is a link through `..data`, so that all can be replaced at once. */
function mountVolume(folder: string, files: Readonly<Record<string, string>>): void {
  const version = '..2026_11_27_10_00_00.1';
  mkdirSync(join(folder, version), { recursive: true });
  symlinkSync(version, join(folder, '..data'));
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(join(folder, version, name), text, { mode: 0o440 });
    symlinkSync(`..data/${name}`, join(folder, name));
  }
}

describe('a pod of the base', () => {
  const objects = objectsOf(readText('charts/kustomize/base/sluice.yaml'));

  it('is ready with the variables and files that it has, and drains before it ends', async () => {
    const folder = temporaryFolder('chart');
    const secrets = { 'store-key': 'a key of the store', 'dashboard-token': 'a token of the dashboard' };
    const metrics = { 'metrics-token': 'a token of prometheus' };
    const config = find<{ data: Record<string, string> }>(objects, 'ConfigMap', 'sluice').data;
    const inside = (text: string) =>
      text.replaceAll('/run/secrets', join(folder, 'run')).replaceAll('/etc/sluice', join(folder, 'etc'));
    mountVolume(join(folder, 'run/sluice'), { 'database-url': inject('postgresUrl'), ...secrets, ...metrics });
    mountVolume(
      join(folder, 'etc'),
      Object.fromEntries(Object.entries(config).map(([name, text]) => [name, inside(text)])),
    );
    mountVolume(join(folder, 'manifests'), {
      'push.json': JSON.stringify(githubManifest({ inputs: { webhookHmacKey: 'env:GITHUB_SECRET' } })),
    });
    const given = Object.entries(variablesOf(objects)).map(([name, value]) => [name, inside(value)]);
    const { readinessProbe, livenessProbe } = containerOf(objects);
    const child = spawn(process.execPath, [join(ROOT, 'dist/cli.js'), 'serve'], {
      cwd: folder,
      env: {
        PATH: process.env.PATH,
        ...Object.fromEntries(given),
        SLUICE_REPLICA_NAME: 'sluice-7d9c-x2x4k',
        SLUICE_MANIFESTS: join(folder, 'manifests'),
        SLUICE_DATABASE_SCHEMA: newSchema(),
        SLUICE_HOST: '127.0.0.1',
        SLUICE_PORT: '0',
        GITHUB_SECRET: 'a secret of github, long enough',
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    const ended = once(child, 'exit');
    const url = await new Promise<string>((listens, failed) => {
      createInterface({ input: child.stdout }).on('line', (line) => {
        const [, found] = /^Sluice listens on (\S+)$/.exec(line) ?? [];
        if (found !== undefined) listens(found);
      });
      void ended.then(([code]) => failed(new Error(`it ended with ${code}`)));
    });
    const ask = async (path: string, token?: string) =>
      (await fetch(`${url}${path}`, token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } }))
        .status;
    await eventually(
      () => ask(readinessProbe.httpGet.path),
      (status) => status === 200,
    );
    expect(await ask(livenessProbe.httpGet.path)).toBe(200);
    expect(await ask('/metrics')).toBe(401);
    expect(await ask('/metrics', metrics['metrics-token'])).toBe(200);
    expect(await ask('/flows/api/flows', metrics['metrics-token'])).toBe(403);
    const flows = await fetch(`${url}/flows/api/flows`, {
      headers: { authorization: `Bearer ${secrets['dashboard-token']}` },
    });
    expect(await flows.json()).toEqual([expect.objectContaining({ name: 'push' })]);
    child.kill('SIGTERM');
    await eventually(
      () => ask(readinessProbe.httpGet.path),
      (status) => status === 503,
    );
    // Not ready, but it still takes what a load balancer sends: refused for its signature, not for the stop.
    const sent = await fetch(`${url}/flows/api/webhook/push`, { method: 'POST', body: '{}' });
    expect(sent.status).toBe(401);
    expect(await ended).toEqual([0, null]);
  });
});
