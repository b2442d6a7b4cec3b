import { execFile, execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, posix, resolve } from 'node:path';
import { promisify } from 'node:util';

const ROOT = resolve(import.meta.dirname, '../..');

/** A stage of a Dockerfile after its execution: its file system, and the settings of its processes. */
export interface Image {
  readonly root: string;
  readonly env: Record<string, string>;
  workdir: string;
  user: string;
  volumes: string[];
  entrypoint: string[];
  command: string[];
  health: string[];
}

/** The place of the test's Node in an image; the base image has its Node elsewhere in the path. */
const NODE_FOLDER = '/opt/node/bin';
const PATH = `${NODE_FOLDER}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`;
/** The user of the base image, by docker-node's Dockerfile; the other users are the machine's. */
const NODE_USER = 1000;

/**
 * Bubblewrap's options for the image as root, with this machine's system in place of the base image's: both have glibc
 * and a shell.
 */
export function rootOf(image: Pick<Image, 'root'>, bind: '--bind' | '--ro-bind'): string[] {
  const links = ['bin', 'lib', 'lib64', 'sbin'].filter((name) => existsSync(`/${name}`));
  return [
    ...[bind, image.root, '/', '--ro-bind', '/usr', '/usr', '--ro-bind', '/etc', '/etc'],
    ...links.flatMap((name) => ['--ro-bind', `/${name}`, `/${name}`]),
    ...[
      '--ro-bind',
      join(image.root, 'opt/passwd'),
      '/etc/passwd',
      '--ro-bind',
      join(image.root, 'opt/group'),
      '/etc/group',
    ],
    ...['--proc', '/proc', '--dev', '/dev', '--tmpfs', '/tmp'],
  ];
}

function baseImage(): Image {
  const root = mkdtempSync(join(tmpdir(), 'sluice-image-'));
  execFileSync('chmod', ['755', root]);
  mkdirSync(join(root, NODE_FOLDER), { recursive: true });
  copyFileSync(process.execPath, join(root, NODE_FOLDER, 'node'));
  for (const file of ['passwd', 'group']) {
    const others = readFileSync(`/etc/${file}`, 'utf8')
      .split('\n')
      .filter((line) => !/^node:|:1000:/.test(line));
    const line = file === 'passwd' ? `node:x:${NODE_USER}:${NODE_USER}::/home/node:/bin/sh` : `node:x:${NODE_USER}:`;
    writeFileSync(join(root, 'opt', file), [line, ...others].join('\n'));
  }
  return {
    root,
    env: { PATH },
    workdir: '/',
    user: 'root',
    volumes: [],
    entrypoint: [],
    command: ['node'],
    health: [],
  };
}

/** The instructions in order, each on one line. */
function instructionsOf(text: string): [name: string, rest: string][] {
  const lines = text
    .replace(/^#.*\n/gm, '')
    .replaceAll('\\\n', ' ')
    .split('\n');
  return lines.flatMap((line) => {
    const [, name, rest] = /^([A-Z]+) (.*)$/.exec(line) ?? [];
    return name === undefined || rest === undefined ? [] : [[name, rest.trim()]];
  });
}

/** Runs a command of the build as root, with network access for npm. */
async function runInBuild(image: Image, command: string): Promise<void> {
  const home = process.env.HOME ?? '/root';
  const npm = Object.entries(process.env).filter(([name]) => /^(npm_config_|NPM_CONFIG_|NODE_EXTRA_|SSL_)/.test(name));
  const args = [...rootOf(image, '--bind'), '--bind', home, home, '--chdir', image.workdir, '/bin/sh', '-c', command];
  await promisify(execFile)('bwrap', args, {
    env: { ...Object.fromEntries(npm), ...image.env, HOME: home, npm_config_prefer_offline: 'true' },
    maxBuffer: 64 * 1024 * 1024,
  });
}

function copy(image: Image, words: readonly string[], stages: ReadonlyMap<string, Image>): void {
  const from = /^--from=(.+)$/.exec(words[0] ?? '')?.[1];
  const paths = words.filter((word) => !word.startsWith('--'));
  const given = paths.at(-1) ?? '';
  const source = from === undefined ? ROOT : (stages.get(from)?.root ?? from);
  const target = join(image.root, posix.resolve(image.workdir, given));
  for (const path of paths.slice(0, -1)) {
    const file = join(source, path);
    if (statSync(file).isDirectory()) {
      mkdirSync(target, { recursive: true });
      execFileSync('cp', ['-a', `${file}/.`, target]);
    } else {
      mkdirSync(given.endsWith('/') ? target : join(target, '..'), { recursive: true });
      execFileSync('cp', [file, target]);
    }
  }
}

/** How each instruction changes its stage; an instruction without an entry fails the test. */
const INSTRUCTIONS: Readonly<
  Record<string, (image: Image, rest: string, stages: ReadonlyMap<string, Image>) => void | Promise<void>>
> = {
  WORKDIR: (image, rest) => {
    image.workdir = rest;
    mkdirSync(join(image.root, rest), { recursive: true });
  },
  COPY: (image, rest, stages) => copy(image, rest.split(/\s+/), stages),
  RUN: (image, rest) => runInBuild(image, rest),
  ENV: (image, rest) => {
    for (const [, name = '', value = ''] of rest.matchAll(/(\w+)=(\S+)/g)) image.env[name] = value;
  },
  USER: (image, rest) => {
    image.user = rest;
  },
  VOLUME: (image, rest) => {
    image.volumes.push(rest);
  },
  EXPOSE: () => {},
  HEALTHCHECK: (image, rest) => {
    image.health = JSON.parse(/CMD (\[.*\])$/.exec(rest)?.[1] ?? '[]');
  },
  ENTRYPOINT: (image, rest) => {
    image.entrypoint = JSON.parse(rest);
  },
  CMD: (image, rest) => {
    image.command = JSON.parse(rest);
  },
};

/** Executes a Dockerfile of this repository as a builder does, all stages in order; returns them, the image last. */
export async function buildImage(dockerfile: string): Promise<Image[]> {
  const stages = new Map<string, Image>();
  const images: Image[] = [];
  for (const [name, rest] of instructionsOf(dockerfile)) {
    if (name === 'FROM') {
      const image = baseImage();
      images.push(image);
      stages.set(/ AS (\S+)$/.exec(rest)?.[1] ?? '', image);
      continue;
    }
    const image = images.at(-1);
    if (image === undefined) continue;
    const carryOut = INSTRUCTIONS[name];
    if (carryOut === undefined) throw new Error(`${name} ${rest}: the test does not know the instruction`);
    await carryOut(image, rest, stages);
  }
  return images;
}
