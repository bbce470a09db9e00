//! Generates the client, without `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let protos = "../../proto";
    println!("cargo:rerun-if-changed={protos}");
    let service = format!("{protos}/evenkeel/v1/spread_service.proto");
    let descriptors = protox::compile([service], [protos])?;
    tonic_prost_build::configure()
        .build_server(false)
        .compile_fds(descriptors)?;
    Ok(())
}
