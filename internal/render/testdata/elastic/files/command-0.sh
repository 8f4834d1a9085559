program=(
  snakemake --cores 4
)
