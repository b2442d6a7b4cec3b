import './installed.ts';

export { DCLinter } from 'dclint';
export { validate as lintDockerfile } from 'dockerfile-utils';
