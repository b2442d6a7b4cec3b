// Writes the kustomize base from the chart (edit only the chart): kustomize.mjs [HELM]. HELM is a helm of the version
// in test/install/kube-tools.ts; other versions format YAML differently.
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const charts = resolve(import.meta.dirname, '../charts');
const [helm = 'helm', folder = join(charts, 'kustomize')] = process.argv.slice(2);
const HEAD =
  '# Written by `npm run kustomize` from charts/sluice: change the chart, or patch this in an overlay of yours.\n';
const rendered = (...flags) =>
  HEAD + execFileSync(helm, ['template', 'sluice', join(charts, 'sluice'), ...flags], { encoding: 'utf8' });

// kustomize generates the ConfigMap of manifests, with a name that changes with the content.
writeFileSync(join(folder, 'base/sluice.yaml'), rendered('--set', 'manifestsConfigMap=sluice-manifests'));
writeFileSync(
  join(folder, 'monitoring/servicemonitor.yaml'),
  rendered('--set', 'serviceMonitor.enabled=true', '--show-only', 'templates/servicemonitor.yaml'),
);
